//! Divides seats among levels: each gets the same fraction of its target, within its bounds.

/// The bounds and the target of one level.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub lower: f64,
    pub upper: f64,
    pub target: f64,
}

/// Minimum target: a fraction of zero would be undefined.
const LEAST_TARGET: f64 = 0.001;
/// Tolerance for sums of floats.
const EPSILON: f64 = 1e-7;

/// The allocations that add up to `total`, and the fraction of its target that each level within its bounds got.
/// `None` if the bounds cannot be met.
pub fn allocate(total: f64, claims: &[Claim]) -> Option<(Vec<f64>, f64)> {
    let targets: Vec<f64> = claims.iter().map(|claim| claim.target.max(LEAST_TARGET)).collect();
    let valid =
        |claim: &Claim| claim.lower >= 0.0 && claim.upper >= claim.lower && claim.target >= claim.lower;
    let sum_at = |fraction: f64| -> f64 { parts(claims, &targets, fraction).sum() };
    let (least, most): (f64, f64) =
        (claims.iter().map(|c| c.lower).sum(), claims.iter().map(|c| c.upper).sum());
    if !claims.iter().all(valid) || least - total > EPSILON || total - most > EPSILON {
        return None;
    }
    if total <= 0.0 {
        return Some((vec![0.0; claims.len()], 0.0));
    }
    // The sum is a monotonic, piecewise linear function of the fraction, with a break where a level meets a bound: find the
    // segment in which it reaches the total.
    let mut bounds: Vec<f64> = claims
        .iter()
        .zip(&targets)
        .flat_map(|(claim, target)| [claim.lower / target, claim.upper / target])
        .collect();
    bounds.sort_by(f64::total_cmp);
    let above = bounds.partition_point(|fraction| sum_at(*fraction) < total);
    let fraction = match (above.checked_sub(1).map(|below| bounds[below]), bounds.get(above)) {
        (Some(below), Some(above)) => {
            let (low, high) = (sum_at(below), sum_at(*above));
            if high > low { below + (above - below) * (total - low) / (high - low) } else { *above }
        }
        (None, Some(first)) => *first,
        (below, None) => below.unwrap_or(0.0),
    };
    Some((parts(claims, &targets, fraction).collect(), fraction))
}

fn parts<'a>(claims: &'a [Claim], targets: &'a [f64], fraction: f64) -> impl Iterator<Item = f64> + 'a {
    claims.iter().zip(targets).map(move |(claim, target)| (fraction * target).clamp(claim.lower, claim.upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(lower: f64, upper: f64, target: f64) -> Claim {
        Claim { lower, upper, target }
    }

    #[test]
    fn unbounded_levels_get_the_same_fraction_of_their_demand() {
        let (parts, fraction) = allocate(30.0, &[claim(0.0, 100.0, 10.0), claim(0.0, 100.0, 20.0)]).unwrap();
        assert_eq!((parts, fraction), (vec![10.0, 20.0], 1.0));
        let (parts, _) = allocate(60.0, &[claim(0.0, 15.0, 10.0), claim(0.0, 100.0, 20.0)]).unwrap();
        assert_eq!(parts, vec![15.0, 45.0]);
        let (parts, _) = allocate(15.0, &[claim(10.0, 20.0, 10.0), claim(0.0, 100.0, 20.0)]).unwrap();
        assert_eq!(parts, vec![10.0, 5.0]);
    }

    #[test]
    fn bounds_that_cannot_be_met_are_reported() {
        assert!(allocate(5.0, &[claim(10.0, 20.0, 10.0)]).is_none());
        assert!(allocate(50.0, &[claim(10.0, 20.0, 10.0)]).is_none());
        assert!(allocate(15.0, &[claim(10.0, 20.0, 5.0)]).is_none());
    }

    #[test]
    fn the_parts_add_up_and_keep_their_bounds() {
        let mut seed = 1_u64;
        let mut next = |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 33) % bound) as f64
        };
        for _ in 0..2000 {
            let claims: Vec<Claim> = (0..1 + next(8) as usize)
                .map(|_| {
                    let lower = next(50);
                    claim(lower, lower + next(200), lower + next(300))
                })
                .collect();
            let (least, most) =
                (claims.iter().map(|c| c.lower).sum::<f64>(), claims.iter().map(|c| c.upper).sum::<f64>());
            let total = (least + next(1 + (most - least) as u64)).round();
            let (parts, fraction) = allocate(total, &claims).unwrap();
            assert!((parts.iter().sum::<f64>() - total).abs() < 1e-6, "{claims:?} {total} {parts:?}");
            for (part, claim) in parts.iter().zip(&claims) {
                assert!(*part >= claim.lower && *part <= claim.upper);
                let free = *part > claim.lower && *part < claim.upper;
                assert!(!free || (part - fraction * claim.target.max(LEAST_TARGET)).abs() < 1e-6);
            }
        }
    }
}
