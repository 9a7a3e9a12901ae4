//! Owner of the code in a source file. In a stack, users look for a line of their own, not for one of a
//! header.

/// Owner of the code of a Python frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeOrigin<'a> {
    /// Python's own code, or a script that starts installed code.
    Python,
    /// An installed package, by its name.
    Package(&'a str),
    /// Code of the user's own.
    User,
}

impl CodeOrigin<'_> {
    /// Largest value that [`CodeOrigin::relevance`] returns.
    pub const BEST: u8 = 2;

    /// Returns how well a frame identifies the maker of a call, given the origin of the innermost frame. The
    /// innermost of the best frames identifies it. Users who look for a leak need a line of their own, not
    /// one of PyTorch's.
    pub fn relevance(self, innermost: CodeOrigin) -> u8 {
        match self {
            CodeOrigin::User => CodeOrigin::BEST,
            _ if self != CodeOrigin::Python && self != innermost => 1,
            _ => 0,
        }
    }

    /// Returns the origin of a source file.
    pub fn of_file(file: &str) -> CodeOrigin<'_> {
        let parts = || file.split('/');
        let installed = parts().skip_while(|part| !["site-packages", "dist-packages"].contains(part)).nth(1);
        if let Some(package) = installed {
            return CodeOrigin::Package(package);
        }
        let is_version =
            |part: &str| part.strip_prefix("python").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let mut pairs = parts().zip(parts().skip(1));
        let is_library = pairs.any(|(lib, python)| ["lib", "lib64"].contains(&lib) && is_version(python));
        let is_script = parts().rev().nth(1) == Some("bin");
        if file.starts_with("<frozen") || is_library || is_script { CodeOrigin::Python } else { CodeOrigin::User }
    }
}

/// Returns true if a source file is a header, by the end of its name.
pub fn is_header_file(file: &str) -> bool {
    const ENDINGS: [&str; 9] = ["h", "hh", "hpp", "hxx", "cuh", "inl", "inc", "tcc", "ipp"];
    file.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_own_frames_stand_before_those_of_packages_and_of_python() {
        let (torch, vllm) = (CodeOrigin::Package("torch"), CodeOrigin::Package("vllm"));
        let standings = |innermost| [CodeOrigin::User, vllm, torch, CodeOrigin::Python].map(|o| o.relevance(innermost));
        assert_eq!(standings(torch), [2, 1, 0, 0]);
        assert_eq!(standings(CodeOrigin::Python), [2, 1, 1, 0]);
    }

    #[test]
    fn files_of_users_packages_and_python_are_told_apart() {
        for own in ["/home/a/train.py", "train.py", "<string>", "/lib/a.py", "/home/python3/lib/a.py"] {
            assert_eq!(CodeOrigin::of_file(own), CodeOrigin::User, "{own}");
        }
        for (file, package) in [
            ("/usr/lib/python3/dist-packages/numpy/x.py", "numpy"),
            ("/opt/venv/lib64/python3.13t/site-packages/torch/storage.py", "torch"),
        ] {
            assert_eq!(CodeOrigin::of_file(file), CodeOrigin::Package(package));
        }
        for python in ["/usr/lib/python3.11/threading.py", "<frozen runpy>", "/opt/venv/bin/vllm"] {
            assert_eq!(CodeOrigin::of_file(python), CodeOrigin::Python, "{python}");
        }
    }
}
