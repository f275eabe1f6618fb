//! Shuffle sharding: each flow gets a hand of queues, and two flows rarely get the same hand.

/// Deals `hand_size` distinct cards of `0..deck_size`, determined by `hash` alone.
pub fn deal(mut hash: u64, deck_size: usize, hand_size: usize, hand: &mut Vec<usize>) {
    hand.clear();
    for dealt in 0..hand_size.min(deck_size) {
        let left = (deck_size - dealt) as u64;
        let mut card = (hash % left) as usize;
        hash /= left;
        // The card is an index into the remaining ones: skip those dealt before. `hand` is sorted so far.
        for before in hand.iter() {
            if *before <= card {
                card += 1;
            }
        }
        let at = hand.partition_point(|before| *before < card);
        hand.insert(at, card);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_has_different_cards_of_the_deck() {
        let mut hand = Vec::new();
        for seed in 0..2000_u64 {
            let hash = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            deal(hash, 128, 6, &mut hand);
            assert_eq!(hand.len(), 6);
            assert!(hand.is_sorted_by(|a, b| a < b) && hand.iter().all(|card| *card < 128), "{hand:?}");
        }
        deal(12345, 3, 6, &mut hand);
        assert_eq!(hand, [0, 1, 2]);
    }

    #[test]
    fn every_card_is_dealt_about_as_often() {
        let (mut counts, mut hand) = ([0; 16], Vec::new());
        for seed in 0..4000_u64 {
            deal(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 16, 4, &mut hand);
            hand.iter().for_each(|card| counts[*card] += 1);
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
