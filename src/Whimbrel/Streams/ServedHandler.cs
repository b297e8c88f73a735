using Whimbrel.Connections;
using Whimbrel.Engines;

namespace Whimbrel.Streams;

/// <summary>
/// Call of a server's handler that serves one connection: its thread, its token and its exceptions. Owner: the session
/// of that connection.
/// </summary>
/// <param name="handler">Handler of the application, for its name.</param>
/// <param name="call">Calls it with the stream or the pipe of a session, which is disposed when it returns.</param>
[System.Diagnostics.CodeAnalysis.SuppressMessage("Design", "CA1001", Justification = "A token source without a timer "
    + "or a wait handle owns nothing to give back, and the handler may look at its token after the end.")]
internal sealed class ServedHandler(Delegate handler, Func<PipeSession, CancellationToken, Task> call)
{
    // Cancelled when the server begins to stop, and when the connection has ended.
    private readonly CancellationTokenSource _stop = new();
    private PipeSession _session = null!;
    private ConnectionHost? _host;

    /// <summary>Name of the method in messages.</summary>
    internal string Name => UserCode.MethodOf(handler) ?? "a handler";

    internal void Cancel() => _stop.Cancel();

    /// <summary>Starts the handler. Called in OnConnected of the session.</summary>
    internal void Begin(PipeSession session)
    {
        _session = session;
        _host = session.Connection!.Host;
        _host.HandlerBegan(session);
        // With callbacks on the pool the handler runs there; the session itself stays on the loop.
        if (_host.Options.Scheduling == Scheduling.ThreadPool)
            session.Loop.Engine.Offload(static s => _ = ((ServedHandler)s!).ServeAsync(), this);
        else _ = ServeAsync();
    }

    private async Task ServeAsync()
    {
        CancellationToken stop = _stop.Token;
        try
        {
            await call(_session, stop).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            // The handler has ended because of its token.
        }
        catch (Exception e)
        {
            Threw(e);
        }

        _session.DisposeOwner();
        _host!.HandlerEnded(_session);
    }

    private void Threw(Exception exception)
    {
        if (exception is NetworkException { Error.Category: not ErrorCategory.Timeout }
            || (exception is ObjectDisposedException && !_session.IsConnected))
        {
            // The connection failed, and its end is reported elsewhere.
            _session.Abort();
            return;
        }

        _session.Loop.Engine.UserCodeThrew(exception);
        _host!.CountUserException();
        _session.AbortWith(new CloseReason(CloseCause.UserException, 0, exception));
        _host.NoteUserException($"The handler {Name}", $" of {_session}", exception,
            "Its connection was aborted; other connections continue.");
    }
}
