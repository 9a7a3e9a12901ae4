//! The macros that read the column `effects` of the table.

/// Reads the column `effects`. The first argument has the names of the function's arguments.
macro_rules! effects {
    ($arguments:tt [$(
        $verb:ident $object:ident ($($by:ident),*)
        $(as $made:ident)? $(from $handle:ident)? $(sized $size:ident)? $(of $whose:ident)? $(to $whom:ident)?
        $(at $offset:ident)? $(on $last:ident)? $(where $choice:ident is $value:literal)?
    ),* $(,)?]) => {
        &[$($crate::effect::effect!($arguments $verb $object($($by),*)
            $(as $made)? $(from $handle)? $(sized $size)? $(of $whose)? $(to $whom)?
            $(at $offset)? $(on $last)? $(where $choice is $value)?)),*]
    };
}

/// Parses an effect.
macro_rules! effect {
    ($arguments:tt Exports $object:ident($by:ident) as $handle:ident) => {
        Effect::Exports(Shared {
            object: Object::$object,
            by: $crate::effect::index!($arguments $by),
            handle: $crate::effect::index!($arguments $handle),
            of: None,
            demand: None,
        })
    };
    ($arguments:tt Opens $object:ident($by:ident) from $handle:ident $(of $whose:ident)?
        $(where $flags:ident is $value:literal)?) => {
        Effect::Opens(Shared {
            object: Object::$object,
            by: $crate::effect::index!($arguments $by),
            handle: $crate::effect::index!($arguments $handle),
            of: $crate::effect::optional!($($crate::effect::index!($arguments $whose))?),
            demand: $crate::effect::optional!($($crate::effect::demand!($arguments $flags $value))?),
        })
    };
    ($arguments:tt Enables $object:ident($by:ident) $(where $flags:ident is $value:literal)?) => {
        Effect::Enables(
            Named { object: Object::$object, by: $crate::effect::index!($arguments $by) },
            $crate::effect::optional!($($crate::effect::demand!($arguments $flags $value))?),
        )
    };
    ($arguments:tt Ends $object:ident($by:ident) $(sized $size:ident)? $(on $last:ident)?) => {
        Effect::Ends(End {
            object: Object::$object,
            by: $crate::effect::index!($arguments $by),
            is_counted: $crate::effect::is_there!($($last)?),
            size: $crate::effect::optional!($($crate::effect::index!($arguments $size))?),
        })
    };
    ($arguments:tt Makes $object:ident($by:ident) $(sized $size:ident)? $(of $whose:ident)? $(at $at:ident)?) => {
        Effect::Makes(Made {
            object: Object::$object,
            by: $crate::effect::index!($arguments $by),
            size: $crate::effect::optional!($($crate::effect::index!($arguments $size))?),
            of: $crate::effect::optional!($($crate::effect::index!($arguments $whose))?),
            at: $crate::effect::optional!($($crate::effect::index!($arguments $at))?),
        })
    };
    ($arguments:tt Grants $object:ident($by:ident) $(sized $size:ident)? to $whom:ident) => {
        Effect::Grants(Grant {
            object: Object::$object,
            by: $crate::effect::index!($arguments $by),
            size: $crate::effect::optional!($($crate::effect::index!($arguments $size))?),
            to: $crate::effect::index!($arguments $whom),
        })
    };
    ($arguments:tt Gathers Team($by:ident) of $properties:ident) => {
        Effect::Gathers(Gathered {
            team: $crate::effect::index!($arguments $by),
            of: $crate::effect::index!($arguments $properties),
        })
    };
    ($arguments:tt Joins Team($by:ident) of $device:ident) => {
        Effect::Joins(AddedDevice {
            team: $crate::effect::index!($arguments $by),
            device: $crate::effect::index!($arguments $device),
        })
    };
    ($arguments:tt Binds $object:ident($by:ident) $(from $from:ident)? sized $size:ident $(of $device:ident)? to $team:ident at $at:ident) => {
        Effect::Binds(Bound {
            object: Object::$object,
            by: $crate::effect::index!($arguments $by),
            from: $crate::effect::optional!($($crate::effect::index!($arguments $from))?),
            size: $crate::effect::index!($arguments $size),
            device: $crate::effect::optional!($($crate::effect::index!($arguments $device))?),
            team: $crate::effect::index!($arguments $team),
            at: $crate::effect::index!($arguments $at),
        })
    };
    ($arguments:tt Unbinds Team($by:ident) sized $size:ident of $device:ident at $at:ident) => {
        Effect::Unbinds(Unbound {
            team: $crate::effect::index!($arguments $by),
            size: $crate::effect::index!($arguments $size),
            device: $crate::effect::index!($arguments $device),
            at: $crate::effect::index!($arguments $at),
        })
    };
    ($arguments:tt Copies $object:ident($to:ident) from $from:ident sized $size:ident $(on $sides:ident)?) => {
        Effect::Copies(Copied {
            object: Object::$object,
            to: $crate::effect::index!($arguments $to),
            from: $crate::effect::index!($arguments $from),
            size: $crate::effect::index!($arguments $size),
            sides: $crate::effect::sides!($($sides)?),
        })
    };
    ($arguments:tt Uses $object:ident($by:ident) $(from $host:ident)? $(sized $size:ident)? $(of $value:ident)?
        $(to $to:ident $(at $pitch:ident)?)?) => {
        Effect::Uses(Used {
            object: Object::$object,
            by: $crate::effect::index!($arguments $by),
            size: $crate::effect::optional!($($crate::effect::index!($arguments $size))?),
            element: $crate::effect::optional!($($crate::effect::index!($arguments $value))?),
            others: $crate::effect::other_args!($arguments $(from $host)? $(to $to $(at $pitch)?)?),
        })
    };
    ($arguments:tt UsesEach $object:ident($to:ident, $from:ident) sized $sizes:ident to $count:ident) => {
        Effect::UsesEach(Batch {
            to: $crate::effect::index!($arguments $to),
            from: $crate::effect::index!($arguments $from),
            sizes: $crate::effect::index!($arguments $sizes),
            count: $crate::effect::index!($arguments $count),
        })
    };
    ($arguments:tt UsesEach $object:ident($all:ident) to $count:ident) => {
        $crate::effect::effect!($arguments UsesEach $object($all, $all) sized $all to $count)
    };
    ($arguments:tt Launches Function($by:ident) from $parameters:ident $(of $extra:ident)?) => {
        Effect::Launches(Launched {
            function: $crate::effect::index!($arguments $by),
            parameters: $crate::effect::index!($arguments $parameters),
            extra: $crate::effect::optional!($($crate::effect::index!($arguments $extra))?),
        })
    };
    ($arguments:tt Records Event($by:ident)) => {
        Effect::Records($crate::effect::index!($arguments $by))
    };
    ($arguments:tt Completes Current()) => {
        Effect::Completes(Work::Current)
    };
    ($arguments:tt Completes $work:ident($by:ident)) => {
        Effect::Completes(Work::$work($crate::effect::index!($arguments $by)))
    };
    ($arguments:tt Follows Event($by:ident) of $stream:ident) => {
        Effect::Follows(Followed {
            event: $crate::effect::index!($arguments $by),
            stream: $crate::effect::index!($arguments $stream),
        })
    };
    ($arguments:tt Drops Stream($by:ident)) => {
        Effect::Drops($crate::effect::index!($arguments $by))
    };
    ($arguments:tt $verb:ident Value($address:ident, $value:ident) of $stream:ident) => {
        Effect::$verb(Signal {
            address: $crate::effect::index!($arguments $address),
            value: $crate::effect::index!($arguments $value),
            stream: $crate::effect::index!($arguments $stream),
        })
    };
    ($arguments:tt Posts Values($by:ident) of $stream:ident to $count:ident) => {
        Effect::Posts(Posted {
            operations: $crate::effect::index!($arguments $by),
            count: $crate::effect::index!($arguments $count),
            stream: $crate::effect::index!($arguments $stream),
        })
    };
    ($arguments:tt Runs Host($by:ident) of $stream:ident) => {
        Effect::Runs(HostCall {
            function: $crate::effect::index!($arguments $by),
            stream: $crate::effect::index!($arguments $stream),
        })
    };
    ($arguments:tt Finds $kind:ident($by:ident) $(sized $room:ident)? of $whose:ident) => {
        Effect::Finds(LookedUp {
            kind: Launchable::$kind,
            by: $crate::effect::index!($arguments $by),
            of: $crate::effect::index!($arguments $whose),
            room: $crate::effect::optional!($($crate::effect::index!($arguments $room))?),
        })
    };
    ($arguments:tt Unloads $code:ident($by:ident)) => {
        Effect::Unloads(Code::$code, $crate::effect::index!($arguments $by))
    };
    ($arguments:tt Instantiates Graph($by:ident) of $graph:ident) => {
        Effect::Instantiates($crate::effect::index!($arguments $by), $crate::effect::index!($arguments $graph))
    };
    ($arguments:tt Replays Graph($by:ident)) => {
        Effect::Replays($crate::effect::index!($arguments $by))
    };
    ($arguments:tt Alters $kind:ident($exec:ident, $node:ident) from $parameters:ident) => {
        Effect::Alters(Altered {
            kind: NodeKind::$kind,
            exec: $crate::effect::index!($arguments $exec),
            node: $crate::effect::index!($arguments $node),
            parameters: $crate::effect::index!($arguments $parameters),
        })
    };
    ($arguments:tt Discards Graph($by:ident)) => {
        Effect::Discards($crate::effect::index!($arguments $by))
    };
    ($arguments:tt LooksUp Function($by:ident) as $found:ident) => {
        Effect::LooksUp($crate::effect::index!($arguments $found))
    };
    ($arguments:tt Asks $subject:ident($device:ident $(, $peer:ident)?) as $answer:ident
        $(where $choice:ident is $value:literal)?) => {
        Effect::Asks(Query {
            subject: Subject::$subject,
            device: $crate::effect::index!($arguments $device),
            peer: $crate::effect::optional!($($crate::effect::index!($arguments $peer))?),
            answer: $crate::effect::index!($arguments $answer),
            choice: $crate::effect::optional!($(($crate::effect::index!($arguments $choice), $value))?),
        })
    };
    ($arguments:tt Begins Driver($by:ident)) => {
        Effect::Begins
    };
    ($arguments:tt $verb:ident $object:ident($by:ident)) => {
        Effect::$verb(Named { object: Object::$object, by: $crate::effect::index!($arguments $by) })
    };
}

/// True if `on LastReference` is present.
macro_rules! is_there {
    () => {
        false
    };
    (LastReference) => {
        true
    };
}

/// Parses the word after `on` of a copy.
macro_rules! sides {
    () => {
        AddressSpace::Devices
    };
    ($sides:ident) => {
        AddressSpace::$sides
    };
}

/// Parses the other arguments of a use of device memory.
macro_rules! other_args {
    ($arguments:tt) => {
        OtherArgs::Nothing
    };
    ($arguments:tt from $host:ident) => {
        OtherArgs::FromHost($crate::effect::index!($arguments $host))
    };
    ($arguments:tt to $host:ident) => {
        OtherArgs::ToHost($crate::effect::index!($arguments $host))
    };
    ($arguments:tt to $height:ident at $pitch:ident) => {
        OtherArgs::Rows($crate::effect::index!($arguments $height), $crate::effect::index!($arguments $pitch))
    };
}

/// Parses `where FLAGS is 1` of an `Opens` or `Enables`: the value without which the call cannot succeed.
macro_rules! demand {
    ($arguments:tt $by:ident $value:literal) => {
        Demand { by: $crate::effect::index!($arguments $by), value: $value }
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

macro_rules! index {
    ([$($argument:ident)*] $name:ident) => {
        $crate::effect::argument(&[$(stringify!($argument)),*], stringify!($name))
    };
}
pub(crate) use {demand, effect, effects, index, is_there, optional, other_args, sides};
