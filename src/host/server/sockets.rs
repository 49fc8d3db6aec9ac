//! The listening sockets: each accepted connection becomes a task of its own.

use super::clients::Outlet;
use super::{Event, Incoming};
use crate::host::attach::{self, Wants};
use crate::host::lock::HostLock;
use crate::host::outbox::Outbox;
use crate::host::paths::Paths;
use crate::host::{editor, hook, peer, shell};
use crate::proto::{ClientId, ErrorInfo};
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Bound sockets, not yet accepting.
pub(super) struct Sockets {
    editor: StdListener,
    shell: StdListener,
    hook: StdListener,
    attach: StdListener,
}

/// What a connection's task needs.
#[derive(Clone)]
pub(super) struct Site {
    pub events: mpsc::Sender<Event>,
    pub editor_limit: Duration,
    pub tasks: TaskTracker,
    pub stop: CancellationToken,
}

/// Binds all sockets.
pub(super) fn bind(lock: &mut HostLock, paths: &Paths) -> Result<Sockets, ErrorInfo> {
    Ok(Sockets {
        editor: lock.bind(&paths.editor_socket())?,
        shell: lock.bind(&paths.shell_socket())?,
        hook: lock.bind(&paths.hook_socket())?,
        attach: lock.bind(&paths.attach_socket())?,
    })
}

/// Starts to accept.
pub(super) fn listen(sockets: Sockets, site: &Site) -> Result<(), ErrorInfo> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let client = || ClientId(NEXT.fetch_add(1, Ordering::Relaxed));
    accept(sockets.editor, site, move |stream, site| async move {
        let (client, outbox) = (client(), Arc::new(Outbox::default()));
        if here(&stream, &site, client, Outlet::Editor(outbox.clone())).await {
            editor::run(stream, client, outbox, site.events, site.editor_limit).await;
        }
    })?;
    accept(sockets.shell, site, move |stream, site| async move {
        let client = client();
        let (lines, queue) = mpsc::channel(shell::QUEUE);
        if here(&stream, &site, client, Outlet::Shell(lines)).await {
            shell::run(stream, client, queue, site.events).await;
        }
    })?;
    accept(sockets.attach, site, viewer)?;
    accept(sockets.hook, site, |stream, site| hook::run(stream, site.events))
}

/// A viewer says what it wants to see; then its connection is the terminal's.
async fn viewer(stream: UnixStream, site: Site) {
    if !peer::is_own(&stream) {
        return;
    }
    let event = match attach::accept(stream).await {
        Ok(Wants::Attach(connection)) => Event::Attach(connection),
        Ok(Wants::Stop(stop, stream)) => Event::StopFrame { force: stop.force, stream },
        Err(e) => return tracing::debug!("{e}"),
    };
    let _ = site.events.send(event).await;
}

/// Tells the loop of a client. `false`: it is not one to talk to.
async fn here(stream: &UnixStream, site: &Site, client: ClientId, outlet: Outlet) -> bool {
    let Some(ancestry) = peer::ancestry(stream) else { return false };
    let incoming = Incoming::Here { client, outlet, ancestry };
    site.events.send(Event::Client(incoming)).await.is_ok()
}

fn accept<F, T>(listener: StdListener, site: &Site, serve: F) -> Result<(), ErrorInfo>
where
    F: Fn(UnixStream, Site) -> T + Send + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    let listener = UnixListener::from_std(listener).map_err(|e| {
        ErrorInfo::new("socket", format!("a socket cannot be listened on: {e}"), "start again")
    })?;
    let site = site.clone();
    // Not tracked: it ends with `stop`, and nothing waits for it.
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                () = site.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    site.tasks.spawn(serve(stream, site.clone()));
                }
                Err(e) => {
                    // Out of descriptors, most likely: it passes when connections end.
                    tracing::warn!("a connection was not accepted: {e}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    });
    Ok(())
}
