//! The `faer` front end.

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Col, Mat, MatMut, MatRef};

use crate::api::{
    element::Element,
    svdvals::{SvdValsGpu, sealed},
    triangular::{self, TriangularGpu},
};

macro_rules! front_end {
    ($matrix:ty, $self:ident => $view:expr) => {
        impl<T: Element> sealed::Matrix<T, Col<T::Real>> for $matrix {
            fn as_faer(&$self) -> MatRef<'_, T> {
                $view
            }

            fn collect(values: Vec<T::Real>) -> Col<T::Real> {
                Col::from_fn(values.len(), |i| values[i])
            }
        }

        impl<T: Element> SvdValsGpu for $matrix {
            type Element = T;
            type Values = Col<T::Real>;
        }
    };
}

front_end!(Mat<T>, self => self.as_ref());
front_end!(MatRef<'_, T>, self => *self);
front_end!(MatMut<'_, T>, self => self.rb());

macro_rules! front_end_mut {
    ($matrix:ty, $self:ident => $view:expr) => {
        impl<T: Element> triangular::sealed::Sealed for $matrix {}

        impl<T: Element> triangular::sealed::MatrixMut<T> for $matrix {
            fn as_faer_mut(&mut $self) -> MatMut<'_, T> {
                $view
            }
        }

        impl<T: Element> TriangularGpu for $matrix {
            type Element = T;
        }
    };
}

front_end_mut!(Mat<T>, self => self.as_mut());
front_end_mut!(MatMut<'_, T>, self => self.rb_mut());
