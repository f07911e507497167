//! The session of this process, as the command line and the configuration say.

use tidegate::{Session, SessionBuilder};

use crate::args::SessionArgs;
use crate::config::Setting;
use crate::environment;
use crate::failure::Failure;

/// Makes a session with the settings of wherever they come from.
pub(crate) async fn session(
    builder: SessionBuilder,
    settings: &[Setting],
) -> Result<Session, Failure> {
    let session = builder.build()?;
    for setting in settings {
        let Setting {
            name,
            value,
            origin,
        } = setting;
        session.set(name, value).await.map_err(|error| {
            let message = format!("{origin}: {error}");
            tidegate::Error::with_source(error.kind(), message, error)
        })?;
    }
    Ok(session)
}

/// Makes a builder with the options of the command line.
pub(crate) fn builder(args: SessionArgs) -> SessionBuilder {
    let mut builder = Session::builder()
        .site_packages(environment::site_packages())
        .kernel_folder(environment::kernel_folder())
        .rates_folder(environment::rates_folder())
        .stores(args.stores);
    if let Some(limit) = args.device_memory_limit {
        builder = builder.device_memory_limit(limit.0);
    }
    if let Some(limit) = args.memory_limit {
        builder = builder.memory_limit(limit.0);
    }
    if let Some(folder) = args.temp_dir {
        builder = builder.temp_dir(folder);
    }
    if let Some(limit) = args.temp_limit {
        builder = builder.temp_limit(limit.0);
    }
    if let Some(threads) = args.threads {
        builder = builder.target_partitions(threads.get());
    }
    for spec in args.simulate_device {
        builder = builder.simulate_device(spec);
    }
    builder
}
