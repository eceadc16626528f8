//! Each front end alone: owned matrices, views, every memory order, against the plain formula for 2 x 2 matrices and against each other.

#[cfg(feature = "ndarray")]
mod ndarray {
    use ndarray::{Array2, ShapeBuilder, arr2, s};
    use svdvals_gpu::{Backend, SvdOptions, SvdValsGpu};

    fn close(x: &ndarray::Array1<f64>, y: &ndarray::Array1<f64>) -> bool {
        // Backward stability: 8 n units of the largest value.
        x.len() == y.len() && x.iter().zip(y).all(|(x, y)| (x - y).abs() <= 8.0 * 40.0 * f64::EPSILON * y.max(1.0))
    }

    /// sigma of [[a, b], [c, d]]: sum of squares a^2 + b^2 + c^2 + d^2, product |ad - bc|.
    #[test]
    fn two_by_two() {
        let sigma = arr2(&[[1.0f64, 2.0], [3.0, 4.0]]).svdvals_gpu().unwrap();
        assert!((sigma[0] * sigma[0] + sigma[1] * sigma[1] - 30.0).abs() < 1e-13 && (sigma[0] * sigma[1] - 2.0).abs() < 1e-14);
        let sigma: ndarray::Array1<f32> = arr2(&[[3.0f32, 0.0], [0.0, -4.0]]).svdvals_gpu().unwrap();
        assert_eq!(sigma.to_vec(), [4.0, 3.0]);
    }

    /// Owned, view, mutable view, shared; C and Fortran order; slices with steps, reversed and transposed: the values of the copy.
    #[test]
    fn views_and_orders() {
        let options = SvdOptions::default().backend(Backend::Cpu);
        let mut a =
            Array2::from_shape_fn((40, 30), |(i, j)| ((i * 31 + j * 17) % 23) as f64 - 11.0 + if i == j { 30.0 } else { 0.0 });
        let want = a.svdvals_gpu_with(&options).unwrap();
        let mut fortran = Array2::zeros((40, 30).f());
        fortran.assign(&a);
        assert!(close(&fortran.svdvals_gpu_with(&options).unwrap(), &want));
        assert!(close(&a.view().svdvals_gpu_with(&options).unwrap(), &want));
        assert!(close(&a.t().svdvals_gpu_with(&options).unwrap(), &want));
        assert!(close(&a.slice(s![..;-1, ..]).svdvals_gpu_with(&options).unwrap(), &want));
        assert!(close(&a.slice(s![..;-1, ..;-1]).reversed_axes().svdvals_gpu_with(&options).unwrap(), &want));
        let part = a.slice(s![3..;2, ..;-3]);
        assert!(close(&part.svdvals_gpu_with(&options).unwrap(), &part.to_owned().svdvals_gpu_with(&options).unwrap()));
        assert!(close(&a.clone().into_shared().svdvals_gpu_with(&options).unwrap(), &want));
        assert!(close(&a.view_mut().svdvals_gpu_with(&options).unwrap(), &want));
        assert_eq!(Array2::<f32>::zeros((0, 4)).svdvals_gpu_with(&options).unwrap().len(), 0);
    }

    /// A broadcast view (stride zero) is a rank-one matrix: sigma_1 = sqrt(m) ||row||.
    #[test]
    fn broadcast_view() {
        let row = ndarray::arr1(&[3.0f64, 4.0]);
        let sigma = row.broadcast((25, 2)).unwrap().svdvals_gpu().unwrap();
        assert!((sigma[0] - 25.0).abs() < 1e-13 && sigma[1] < 1e-14);
    }

    /// The stages by hand, and the dense copies of the band.
    #[test]
    fn stage_by_stage() {
        let a = Array2::from_shape_fn((50, 50), |(i, j)| 1.0 / (1.0 + i as f64 + 2.0 * j as f64));
        let options = SvdOptions::default().backend(Backend::Cpu);
        let band = a.to_band(&options.run).unwrap();
        assert_eq!(band.to_array2()[(4, 7)], band.get(4, 7));
        let sigma = band.band_to_bidiag(&options.run).unwrap().svdvals().unwrap();
        assert!(close(&ndarray::Array1::from(sigma), &a.svdvals_gpu_with(&options).unwrap()));
    }
}

#[cfg(feature = "faer")]
mod faer {
    use faer::{Col, Mat, mat};
    use svdvals_gpu::{Backend, SvdOptions, SvdValsGpu};

    /// sigma of [[a, b], [c, d]]: sum of squares a^2 + b^2 + c^2 + d^2, product |ad - bc|.
    #[test]
    fn two_by_two() {
        let sigma: Col<f64> = mat![[1.0f64, 2.0], [3.0, 4.0]].svdvals_gpu().unwrap();
        assert!((sigma[0] * sigma[0] + sigma[1] * sigma[1] - 30.0).abs() < 1e-13 && (sigma[0] * sigma[1] - 2.0).abs() < 1e-14);
    }

    /// Owned, view and mutable view give the same values, bit for bit: they are the same memory.
    #[test]
    fn owned_and_views() {
        let options = SvdOptions::default().backend(Backend::Cpu);
        let mut a = Mat::<f32>::from_fn(40, 30, |i, j| ((i * 31 + j * 17) % 23) as f32);
        let want = a.svdvals_gpu_with(&options).unwrap();
        assert_eq!(a.as_ref().svdvals_gpu_with(&options).unwrap(), want);
        assert_eq!(a.as_mut().svdvals_gpu_with(&options).unwrap(), want);
    }

    /// The stages by hand, and the dense copy of the band.
    #[test]
    fn stage_by_stage() {
        let a = Mat::<f64>::from_fn(50, 60, |i, j| 1.0 / (1.0 + i as f64 + 2.0 * j as f64));
        let options = SvdOptions::default().backend(Backend::Cpu);
        let band = SvdValsGpu::to_band(&a, &options.run).unwrap();
        assert_eq!(band.to_mat()[(4, 7)], band.get(4, 7));
        let sigma = band.band_to_bidiag(&options.run).unwrap().svdvals().unwrap();
        let want = a.svdvals_gpu_with(&options).unwrap();
        assert!((sigma[0] - want[0]).abs() <= 8.0 * 60.0 * f64::EPSILON * want[0]);
    }
}
