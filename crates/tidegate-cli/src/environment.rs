//! What the environment says; nothing below this crate reads it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Tells whether colours are welcome (<https://no-color.org>).
pub(crate) fn colours() -> bool {
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Returns the pager that the user prefers, with its arguments.
pub(crate) fn pager() -> Option<String> {
    ["TIDEGATE_PAGER", "PAGER"]
        .into_iter()
        .filter_map(|name| env::var(name).ok())
        .find(|pager| !pager.trim().is_empty())
}

/// Returns the editor that the user prefers, with its arguments.
pub(crate) fn editor() -> String {
    ["VISUAL", "EDITOR"]
        .into_iter()
        .filter_map(|name| env::var(name).ok())
        .find(|editor| !editor.trim().is_empty())
        .unwrap_or_else(|| "vi".into())
}

/// Returns what `CUDA_VISIBLE_DEVICES` says, to be told only: the driver obeys it by itself.
pub(crate) fn visible_devices() -> Option<String> {
    env::var_os("CUDA_VISIBLE_DEVICES").map(|value| value.display().to_string())
}

/// Returns where the prompt keeps its history: below `$XDG_STATE_HOME`, else `~/.local/state`.
pub(crate) fn history_file() -> Option<PathBuf> {
    state_home(env::var_os("XDG_STATE_HOME"), env::home_dir())
        .map(|folder| folder.join("tidegate").join("history"))
}

/// Returns the user's configuration: below `$XDG_CONFIG_HOME`, else `~/.config`.
pub(crate) fn config_file() -> Option<PathBuf> {
    let home = Path::new(".config");
    xdg_folder(env::var_os("XDG_CONFIG_HOME"), env::home_dir(), home)
        .map(|folder| folder.join("tidegate").join("config.toml"))
}

/// Returns the variables that begin with `TIDEGATE_`, in order; what is no text is left out.
pub(crate) fn own_variables() -> Vec<(String, String)> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let mut variables: Vec<(String, String)> = env::vars_os()
        .filter_map(text)
        .filter(|(name, _)| name.starts_with("TIDEGATE_"))
        .collect();
    variables.sort();
    variables
}

/// Returns the password for a server.
pub(crate) fn password() -> Option<String> {
    env::var("TIDEGATE_PASSWORD").ok()
}

/// Returns the token for a server.
pub(crate) fn token() -> Option<String> {
    env::var("TIDEGATE_TOKEN")
        .ok()
        .filter(|token| !token.is_empty())
}

/// Returns the collector that OpenTelemetry's variables name.
pub(crate) fn otlp_endpoint() -> Option<String> {
    [
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ]
    .into_iter()
    .filter_map(|name| env::var(name).ok())
    .find(|endpoint| !endpoint.is_empty())
}

/// Returns the variables by which clouds name credentials and places, those with a value.
pub(crate) fn store_variables() -> Vec<(String, String)> {
    let names_a_cloud = |name: &str| {
        let mut clouds = ["AWS_", "AZURE_", "GOOGLE_"].into_iter();
        clouds.any(|cloud| name.starts_with(cloud))
    };
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    env::vars_os()
        .filter_map(text)
        .filter(|(name, value)| names_a_cloud(name) && !value.is_empty())
        .collect()
}

/// Returns where compiled kernels are kept: below `$XDG_CACHE_HOME`, else `~/.cache`.
pub(crate) fn kernel_folder() -> Option<PathBuf> {
    cache_home(env::var_os("XDG_CACHE_HOME"), env::home_dir())
        .map(|folder| folder.join("tidegate").join("kernels"))
}

/// Returns where learned rates are kept: below `$XDG_CACHE_HOME`, else `~/.cache`.
pub(crate) fn rates_folder() -> Option<PathBuf> {
    cache_home(env::var_os("XDG_CACHE_HOME"), env::home_dir())
        .map(|folder| folder.join("tidegate").join("rates"))
}

fn state_home(xdg: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    xdg_folder(xdg, home, Path::new(".local/state"))
}

fn cache_home(xdg: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    xdg_folder(xdg, home, Path::new(".cache"))
}

fn xdg_folder(xdg: Option<OsString>, home: Option<PathBuf>, below: &Path) -> Option<PathBuf> {
    // A relative path is to be ignored, says the XDG base directory specification.
    let xdg = xdg.map(PathBuf::from).filter(|folder| folder.is_absolute());
    xdg.or_else(|| Some(home.filter(|home| home.is_absolute())?.join(below)))
}

/// Returns the folders into which Python packages are installed, where a wheel of NVRTC may be.
pub(crate) fn site_packages() -> Vec<PathBuf> {
    let prefixes = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .iter()
        .filter_map(env::var_os);
    let user = env::home_dir().map(|home| home.join(".local"));
    let system = ["/usr/local", "/usr"].map(PathBuf::from);
    let prefixes = prefixes.map(PathBuf::from).chain(user).chain(system);
    prefixes
        .flat_map(|prefix| python_folders(&prefix.join("lib")))
        .collect()
}

fn python_folders(lib: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(lib).into_iter().flatten().flatten();
    let pythons = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"))
        .flat_map(|entry| {
            ["site-packages", "dist-packages"].map(|folder| entry.path().join(folder))
        });
    let mut folders: Vec<PathBuf> = pythons.filter(|folder| folder.is_dir()).collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{cache_home, state_home};

    #[test]
    fn history_lives_in_the_state_folder() {
        let home = || Some(PathBuf::from("/people/a"));
        assert_eq!(state_home(Some("/s".into()), home()), Some("/s".into()));
        let default = Some(PathBuf::from("/people/a/.local/state"));
        assert_eq!(state_home(None, home()), default);
        assert_eq!(state_home(Some("s".into()), home()), default);
        assert_eq!(state_home(Some("".into()), home()), default);
        assert_eq!(state_home(None, None), None);
        let default = Some(PathBuf::from("/people/a/.cache"));
        assert_eq!(cache_home(None, home()), default);
    }
}
