//! The `faer` front end.

use faer::prelude::Reborrow;
use faer::{Col, Mat, MatMut, MatRef};

use crate::{
    scalar::Element,
    svdvals::{SvdValsGpu, sealed},
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
