//! The rows of stacks and frames: their numbers, and the names of addresses.

use crate::options::Redact;
use crate::table::TablePart;
use crate::tables::{Frame, Frames, Stack, Stacks};
use anyhow::Result;
use cupeer_report::model::Place;
use std::collections::HashMap;
use std::rc::Rc;

/// Frames and stacks, each with a number, in the order in which they first occurred.
pub struct StackNumbering<'a> {
    redact: &'a dyn Redact,
    /// Numbers of the frames, by node and place.
    frames: HashMap<(usize, Place), i64>,
    /// Numbers of the report's stacks, by node and frames. Stacks of calls are numbered separately.
    stacks: HashMap<(usize, Vec<Place>), i64>,
    paths: HashMap<Rc<str>, String>,
}

impl<'a> StackNumbering<'a> {
    pub fn new(redact: &'a dyn Redact) -> Self {
        StackNumbering { redact, frames: HashMap::new(), stacks: HashMap::new(), paths: HashMap::new() }
    }

    /// Returns the number of a stack of the report, and adds its rows at its first occurrence; `None` if the
    /// stack is empty.
    pub fn number_stack(
        &mut self,
        node: usize,
        process: u32,
        caller: &Place,
        stack: &[Place],
        out: &mut (TablePart<Stacks>, TablePart<Frames>),
    ) -> Result<Option<i64>> {
        if stack.is_empty() {
            return Ok(None);
        }
        let key = (node, stack.to_vec());
        if let Some(known) = self.stacks.get(&key) {
            return Ok(Some(*known));
        }
        let number = self.stacks.len() as i64;
        self.stacks.insert(key, number);
        self.add_stack_rows(node, process, number, caller, stack, out)?;
        Ok(Some(number))
    }

    /// Adds the rows of a stack.
    pub fn add_stack_rows(
        &mut self,
        node: usize,
        process: u32,
        number: i64,
        caller: &Place,
        stack: &[Place],
        (stacks, frames): &mut (TablePart<Stacks>, TablePart<Frames>),
    ) -> Result<()> {
        let by = stack.iter().position(|place| caller.is_place_of(place));
        for (depth, place) in stack.iter().enumerate() {
            let frame = self.number_frame(node, process, place, frames)?;
            let is_caller = by == Some(depth);
            stacks.push_row(process, &Stack { stack: number, depth: depth as i32, frame, is_caller })?;
        }
        Ok(())
    }

    fn number_frame(
        &mut self,
        node: usize,
        process: u32,
        place: &Place,
        frames: &mut TablePart<Frames>,
    ) -> Result<i64> {
        let next = self.frames.len() as i64;
        let number = *self.frames.entry((node, place.clone())).or_insert(next);
        if number == next {
            let library = place
                .library
                .as_ref()
                .map(|path| self.paths.entry(path.clone()).or_insert_with(|| self.redact.redact_path(path)).clone());
            let line = place.lines.last();
            let file = line.map(|line| self.redact.redact_path(&line.file));
            let python = place.python.as_deref();
            let python_file = python.map(|line| self.redact.redact_path(&line.file));
            let row = Frame {
                frame: number,
                library: library.as_deref(),
                build_id: place.build_id.as_deref(),
                library_offset: place.offset as i64,
                function: place.symbol(),
                file: file.as_deref(),
                line: line.map(|line| line.line as i32),
                python_file: python_file.as_deref(),
                python_line: python.map(|line| line.line as i32),
                python_function: python.and_then(|line| line.function.as_deref()),
            };
            frames.push_row(process, &row)?;
        }
        Ok(number)
    }
}
