use super::*;
use proptest::prelude::*;

/// A place whose objects are made and given up in the order of letters. `c` was given up, `o` is left, `O` was made in an exchange and
/// left, `i` serves nothing from the next letter on, `u` was used at the end, and `.` is another step of the process.
fn of(text: &str) -> Option<Growth<'static>> {
    let mut steps = StepTimes::default();
    let (mut left, mut made) = (Vec::new(), 0);
    let end = text.len() as u64;
    for (at, letter) in (0..).zip(text.chars()) {
        steps.add(at);
        if letter == '.' {
            continue;
        }
        let (idle, used) = ((letter == 'i').then_some(at), (letter == 'u').then_some(end));
        let object = UnreleasedObject {
            ordinal: made,
            at,
            bytes: 1,
            idle,
            used,
            is_exchanged: letter == 'O',
            is_consumed: true,
        };
        left.extend((letter != 'c').then_some(object));
        made += 1;
    }
    PlaceHistory { made, half: 0, left: &left, steps: Some(&steps), end }.find_growth(std::iter::empty())
}

fn repeated(text: &str, times: usize) -> String {
    text.repeat(times)
}

#[test]
fn a_place_that_gives_up_some_leaks_from_beginning_to_end() {
    for grown in ["cocccoccoccoccc", "occcoccccccocc", "cococococococo", &repeated("oco", 8)] {
        assert_eq!(of(grown), Some(Growth::SomeLeft), "{grown}");
    }
    // Held from the start, the newest ones, too few to tell, and those that are used all the time.
    for quiet in [
        "ooocccccccc",
        "cccccccccooo",
        "ooocccccccooo",
        "ocooccooo",
        "cocccccccoc",
        "ooooo",
        "ccc",
        "",
        "cucccuccccuccc",
        "oooooooooooooooooooocccccc",
    ] {
        assert_eq!(of(quiet), None, "{quiet}");
    }
}

#[test]
fn idle_objects_pile_up_while_more_are_made() {
    for grown in ["iii.i", "i.i.i.o", &repeated("i..", 100)] {
        assert_eq!(of(grown), Some(Growth::Unused), "{grown}");
    }
    // Too few, and all given back to a pool after the last was made.
    for quiet in ["ii", "iic", "i.i"] {
        assert_eq!(of(quiet), None, "{quiet}");
    }
}

#[test]
fn one_more_with_each_exchange_until_the_end_piles_up() {
    for grown in ["OOOOOOOO", "O.O.O.O.O.O.O.O.O.", &repeated("Ooo..", 20), &(repeated("O.", 100) + "........")] {
        assert_eq!(of(grown), Some(Growth::PerExchange), "{grown}");
    }
    for quiet in [
        // Made at once, in one exchange, and too few.
        "oooooooooo",
        "Ooooooooooooo",
        "O.O.O.O.",
        // The program goes on, or the older ones are used.
        &(repeated("O.", 20) + &".".repeat(60)),
        &(repeated("O.", 200) + &".".repeat(80)),
        &repeated("u.", 100),
    ] {
        assert_eq!(of(quiet), None, "{quiet}");
    }
}

#[test]
fn a_set_that_rotates_piles_up_and_one_that_is_used_at_the_end_is_kept() {
    let mut steps = StepTimes::default();
    (0..400).for_each(|at| steps.add(at));
    let growth = |used: fn(u64) -> u64| {
        let left = |n| UnreleasedObject {
            ordinal: n,
            at: 4 * n,
            is_exchanged: true,
            is_consumed: true,
            ..UnreleasedObject::default()
        };
        let left: Vec<UnreleasedObject> =
            (0..100).map(|n| UnreleasedObject { used: Some(used(n)), ..left(n) }).collect();
        PlaceHistory { made: 100, half: 0, left: &left, steps: Some(&steps), end: 400 }.find_growth(std::iter::empty())
    };
    assert_eq!(growth(|n| 4 * n + 1), Some(Growth::PerExchange));
    assert_eq!(growth(|n| 4 * n + 30), Some(Growth::PerExchange), "used while 7 newer were made");
    assert_eq!(growth(|n| 4 * n + 100), None, "used while 25 newer were made");
    assert_eq!(growth(|n| if n == 0 { 399 } else { 4 * n + 1 }), Some(Growth::PerExchange), "one is kept");
    assert_eq!(growth(|n| if n % 30 == 0 { 399 } else { 4 * n + 1 }), None, "some are used at the end");
}

#[test]
fn a_set_of_which_some_go_at_random_is_kept() {
    let left: Vec<UnreleasedObject> =
        (0..60).map(|n| UnreleasedObject { ordinal: 2 * n, at: 2 * n, ..UnreleasedObject::default() }).collect();
    let growth =
        |half| PlaceHistory { made: 120, half, left: &left, steps: None, end: 120 }.find_growth(std::iter::empty());
    assert_eq!([growth(30), growth(58)], [Some(Growth::SomeLeft), None]);
}

#[test]
fn buffers_that_a_library_sets_up_for_kernels_are_kept() {
    let mut steps = StepTimes::default();
    (0..400).for_each(|at| steps.add(at));
    for is_consumed in [false, true] {
        let left = |n| UnreleasedObject {
            ordinal: n,
            at: 8 * n,
            is_exchanged: true,
            is_consumed,
            ..UnreleasedObject::default()
        };
        let left: Vec<UnreleasedObject> = (0..50).map(left).collect();
        let line = PlaceHistory { made: 50, half: 0, left: &left, steps: Some(&steps), end: 400 };
        assert_eq!(line.find_growth(std::iter::empty()), is_consumed.then_some(Growth::PerExchange));
    }
}

#[test]
fn many_objects_are_decided_by_the_newest_uses() {
    // Only some of very many are watched: those that were made last.
    assert_eq!(of(&(repeated("O", 800) + &repeated("u", 250))), None);
}

#[test]
fn objects_that_grow_with_each_mark_pile_up() {
    let marks: Vec<u64> = (0..=10).map(|i| 100 * i).collect();
    let grown = |left: &[u64]| marks_with_growth(left, left[0], &marks);
    assert_eq!(grown(&[50, 150, 250, 350, 450, 550, 650, 750, 850, 950]), Some((10, 10)));
    assert_eq!(grown(&[350, 450, 650, 750, 850]), Some((5, 7)), "from the first on");
    // All at the start, all before the marks, and too few to tell.
    assert_eq!(grown(&[10, 20, 30, 40, 50, 150, 250]), None);
    assert_eq!(marks_with_growth(&[5, 10, 20, 30], 5, &marks[1..]), None);
    assert_eq!(grown(&[650, 750, 850]), None);
    assert_eq!(marks_with_growth(&[50, 150, 250, 350], 50, &[]), None);
}

#[test]
fn objects_that_grow_over_minutes_pile_up() {
    const SECOND: u64 = 1_000_000_000;
    let every = |seconds: u64, count: u64| (0..count).map(|i| i * seconds * SECOND).collect::<Vec<_>>();
    assert!(grows_over_time(&every(5, 20), 0, 100 * SECOND));
    // In a short time, too few, and at the start of a long time.
    assert!(!grows_over_time(&every(1, 20), 0, 20 * SECOND));
    assert!(!grows_over_time(&every(10, 10), 0, 100 * SECOND));
    assert!(!grows_over_time(&every(5, 20), 0, 200 * SECOND));
    assert!(!grows_over_time(&every(5, 20), 0, u64::MAX) && !grows_over_time(&[], 5, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// A place that stops in the first half of its program, which then goes on otherwise, is never growing.
    #[test]
    fn growth_that_stops_in_the_first_half_is_none(made in "[oO.]{1,200}") {
        let text = made.clone() + &".".repeat(made.len());
        prop_assert_eq!(of(&text), None, "{}", text);
    }

    /// The speed of the machine decides nothing: a program takes the same steps, whatever the time between them.
    #[test]
    fn a_slower_machine_sees_the_same(made in "[oOci.]{1,100}", factor in 1u64..1000) {
        let mut both = [1, factor].map(|factor| {
            let mut steps = StepTimes::default();
            let (mut left, mut count) = (Vec::new(), 0);
            for (at, letter) in (0..).zip(made.chars()).map(|(at, letter)| (at * factor, letter)) {
                steps.add(at);
                if letter != '.' {
                    let idle = (letter == 'i').then_some(at);
                    let is_exchanged = letter == 'O';
                    let object = UnreleasedObject { ordinal: count, at, idle, is_exchanged, is_consumed: true, ..UnreleasedObject::default() };
                    left.extend((letter != 'c').then_some(object));
                    count += 1;
                }
            }
            let end = made.len() as u64 * factor;
            PlaceHistory { made: count, half: 0, left: &left, steps: Some(&steps), end }.find_growth(std::iter::empty()).is_some()
        });
        both.sort_unstable();
        prop_assert_eq!(both[0], both[1]);
    }
}
