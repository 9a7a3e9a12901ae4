//! The story of a finding: the calls that it is about, from top to bottom, each in the lane of its process, with an arrow from
//! call to call.
//!
//! It is drawn by the style alone: each step is a grid with a column for each lane. The steps are the call of the finding and
//! its objects; the handle that these name adds what they do not have, such as when it was closed.

use super::Page;
use super::finding::format_place;
use cupeer_report::endings;
use cupeer_report::model::{Finding, Handle, Place};
use cupeer_rules::{Rule, Tells, object_label};
use cupeer_spec::function::FnId;
use cupeer_spec::group::Group;
use maud::{Markup, html};

/// Number of lanes above which no story is drawn.
const MOST_LANES: usize = 4;
/// Largest number of steps in a story. Of more, the last ones are left out, but never the call of the
/// finding.
const MOST_STEPS: usize = 6;

/// Effect of a step on the memory or the event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepKind {
    Export,
    Open,
    Close,
    Free,
    Other,
}

impl StepKind {
    fn of_role(role: &str) -> StepKind {
        match role {
            "export" => StepKind::Export,
            "opening" => StepKind::Open,
            "closing" | "unmapping" => StepKind::Close,
            "freeing" | "releasing" | "ending" => StepKind::Free,
            _ => StepKind::Other,
        }
    }

    fn of_function(name: &str) -> StepKind {
        let acts = [
            (Group::Export, StepKind::Export),
            (Group::Open, StepKind::Open),
            (Group::Release, StepKind::Close),
            (Group::Lifetime, StepKind::Free),
        ];
        let is_in = |group: Group| FnId::by_name(name).is_some_and(|function| function.spec().is_in(group));
        acts.into_iter().find(|(group, _)| is_in(*group)).map_or(StepKind::Other, |(_, act)| act)
    }
}

/// A call in the story.
struct StoryStep<'a> {
    act: StepKind,
    who: String,
    what: String,
    place: Option<&'a Place>,
    at_ns: u64,
    is_found: bool,
}

/// State of a lane beside a step: nothing, memory that exists or is open, or open memory that was freed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LaneState {
    None,
    Exists,
    Open,
    FreedWhileOpen,
}

impl LaneState {
    fn style_class(self) -> &'static str {
        match self {
            LaneState::None => "",
            LaneState::Exists => "there",
            LaneState::Open => "open",
            LaneState::FreedWhileOpen => "gone",
        }
    }
}

impl<'r> Page<'r> {
    /// Draws the story; nothing for a single call.
    pub fn draw_story(&self, finding: &'r Finding) -> Markup {
        let steps = self.collect_steps(finding);
        let mut lanes: Vec<&str> = Vec::new();
        for step in &steps {
            if !lanes.contains(&&*step.who) {
                lanes.push(&step.who);
            }
        }
        if steps.len() < 2 || lanes.len() > MOST_LANES {
            return html! {};
        }
        let lane_of = |step: &StoryStep| lanes.iter().position(|who| *who == step.who).unwrap_or(0);
        let mut lives = vec![LaneState::None; lanes.len()];
        let mut last: Option<usize> = None;
        html! {
            div class={ "story of" (lanes.len()) } {
                div.step.names { span.at {} @for (lane, who) in lanes.iter().enumerate() { b class={ "lane" (lane) } { (who) } } }
                @for step in &steps {
                    @let lane = lane_of(step);
                    @let before = lives.clone();
                    @let () = update_lanes(&mut lives, lane, step);
                    @let found = if step.is_found { finding.severity } else { "" };
                    div.step {
                        span.at { (self.verdict.at(step.at_ns)) }
                        @for other in 0..lanes.len() {
                            div class={ "life lane" (other) " from-" (before[other].style_class()) " to-" (lives[other].style_class()) } {}
                        }
                        @if let Some(from) = last.filter(|from| *from != lane && step.act != StepKind::Close) { (draw_arrow(from, lane, found)) }
                        div class={ "call lane" (lane) " " (found) } {
                            // Allow line breaks in a long function name before the word `Mem`.
                            b { @for part in step.what.split_inclusive("Mem") { (part) wbr; } }
                            @if let Some(known) = step.place { br; (format_place(known)) }
                        }
                    }
                    @let () = last = Some(lane);
                }
            }
        }
    }

    /// Returns the steps in order: the call of the finding, the calls of its objects, and other known calls
    /// about the handle.
    fn collect_steps(&self, finding: &'r Finding) -> Vec<StoryStep<'r>> {
        let rule = Rule::of(&finding.rule);
        let failed = finding.result.as_deref().filter(|result| *result != "CUDA_SUCCESS");
        let result =
            failed.map_or_else(String::new, |result| format!(" → {}", cupeer_report::names::short_result_name(result)));
        let mut steps = vec![StoryStep {
            act: if failed.is_some() { StepKind::Other } else { StepKind::of_function(&finding.function) },
            who: self.brief_view.name_process(&finding.proc),
            what: format!("{}{result}", finding.function),
            place: Some(&finding.caller),
            at_ns: finding.time_ns,
            is_found: true,
        }];
        for object in &finding.objects {
            let Some(at_ns) = object.time_ns else { continue };
            let who = match &object.proc {
                Some(proc) => self.brief_view.name_process(proc),
                None => format!("process {}", object.pid),
            };
            let what = object_label(rule, object.role).to_owned();
            if at_ns == finding.time_ns && who == steps[0].who {
                continue;
            }
            steps.push(StoryStep {
                act: StepKind::of_role(object.role),
                who,
                what,
                place: object.call_place(),
                at_ns,
                is_found: false,
            });
        }
        let named = finding.objects.iter().find_map(|object| object.fingerprint);
        let handle = named.and_then(|name| self.report.handles.iter().find(|handle| handle.fingerprint == name));
        if let Some(handle) = handle {
            self.add_handle_calls(handle, &mut steps);
        }
        if finding.states_fact(Tells::ExporterEnded) {
            self.add_exporter_end(handle, finding, &mut steps);
        }
        // After the finding, the only steps that matter are closes by processes that had the handle open.
        let (found, is_free) = (finding.time_ns, steps[0].act == StepKind::Free);
        steps.retain(|step| step.at_ns <= found || is_free && step.act == StepKind::Close);
        steps.sort_by_key(|step| (step.at_ns, step.is_found));
        while steps.len() > MOST_STEPS {
            let Some(least) = steps.iter().rposition(|step| !step.is_found) else { break };
            steps.remove(least);
        }
        steps
    }

    /// Adds a step for the end of the exporter if it came before the call of the finding.
    fn add_exporter_end(&self, handle: Option<&Handle>, finding: &Finding, steps: &mut Vec<StoryStep>) {
        let exporter = handle.and_then(|handle| self.process_indexes.get(&**handle.exporter.as_ref()?));
        let Some(process) = exporter.map(|place| &self.report.processes[*place]) else { return };
        let at_ns = process.ended_by_ns.map_or(finding.time_ns, |ended| ended.min(finding.time_ns));
        let (who, what) = (self.brief_view.name_process(&process.proc), endings::describe_end(process));
        steps.push(StoryStep { act: StepKind::Free, who, what, place: None, at_ns, is_found: false });
    }

    /// Adds the calls about a handle that have no step yet: its export, the opens, the closes, and the free.
    fn add_handle_calls(&self, handle: &Handle, steps: &mut Vec<StoryStep>) {
        let mut add = |act, proc: Option<&str>, what: &str, at_ns: Option<u64>| {
            let Some((at_ns, proc)) = at_ns.zip(proc) else { return };
            let who = self.brief_view.name_process(proc);
            if !steps.iter().any(|step| step.who == who && (step.act == act || step.at_ns == at_ns)) {
                steps.push(StoryStep { act, who, what: what.to_owned(), place: None, at_ns, is_found: false });
            }
        };
        let exporter = handle.exporter.as_deref();
        add(StepKind::Export, exporter, "exported", handle.exported_ns);
        if let [open] = &handle.opens[..] {
            add(StepKind::Open, Some(&open.proc), "opened", Some(open.opened_ns));
            add(StepKind::Close, Some(&open.proc), "closed", open.closed_ns);
        }
        add(StepKind::Free, exporter, "freed", handle.freed_ns);
    }
}

/// Updates the lanes after a step.
fn update_lanes(lives: &mut [LaneState], lane: usize, step: &StoryStep) {
    match step.act {
        StepKind::Export => lives[lane] = LaneState::Exists,
        StepKind::Open => lives[lane] = LaneState::Open,
        StepKind::Close => lives[lane] = LaneState::None,
        StepKind::Free => {
            lives[lane] = LaneState::None;
            lives
                .iter_mut()
                .filter(|life| **life == LaneState::Open)
                .for_each(|life| *life = LaneState::FreedWhileOpen);
        }
        StepKind::Other => {}
    }
}

/// Draws an arrow from the middle of one lane to the call in another one.
fn draw_arrow(from: usize, to: usize, class: &str) -> Markup {
    let (first, over) = if from < to { (from, to - from) } else { (to + 1, from - to) };
    let way = if from < to { "right" } else { "left" };
    html! { div class={ "arrow " (way) " lane" (first) " over" (over) " " (class) } {} }
}
