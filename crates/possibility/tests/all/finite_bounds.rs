//! Consistency bounds on finite sets against 40-digit numbers.

use crate::{CLOSED_FORM, assert_absolute, cases};
use golden::{assert_close, assert_number, numbers};
use possibility::Finite;
use possibility::bound::ConsistencyBounds;
use possibility::posterior::FinitePosterior;

#[test]
fn golden_finite_bounds() {
    for case in cases("finite_space") {
        let name = case["name"].as_str().unwrap_or("unnamed");
        let prior = Finite::from_values(&numbers(&case["prior"])).unwrap();
        let posterior = FinitePosterior::new(&numbers(&case["loss"]), &prior).unwrap();
        let log_z = posterior.log_consistency();
        let what = format!("{name}: log Z");
        assert_number(&what, log_z, &case["log_z_max"], CLOSED_FORM);
        let (values, want) = (posterior.function().values(), numbers(&case["posterior"]));
        assert_close(&format!("{name}: posterior"), &values, &want, CLOSED_FORM);
        for candidate in case["candidates"].as_array().unwrap() {
            let g = Finite::from_values(&numbers(&candidate["g"])).unwrap();
            let kind = candidate["kind"].as_str().unwrap_or("unnamed");
            let what = |field: &str| format!("{name}: {kind}: {field}");
            for (field, got) in [
                ("lower_cbo", posterior.lower_cbo(&g)),
                ("upper_cbo", posterior.upper_cbo(&g)),
                ("dmax_g_to_posterior", posterior.divergence_from(&g)),
                ("dmax_posterior_to_g", posterior.divergence_to(&g)),
            ] {
                assert_absolute(&what(field), got.unwrap(), &candidate[field], CLOSED_FORM);
            }
        }
    }
}
