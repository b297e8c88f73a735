using Whimbrel.Connections;
using Whimbrel.Engines;

namespace Whimbrel.Streams;

/// <summary>
/// Call of a server's handler that serves one connection: its thread, its token and its exceptions. Owner: the session
/// of that connection.
/// </summary>
/// <typeparam name="T">Type that the handler receives for the session; disposed when the handler returns.</typeparam>
[System.Diagnostics.CodeAnalysis.SuppressMessage("Design", "CA1001", Justification = "A token source without a timer "
    + "or a wait handle owns nothing to give back, and the handler may look at its token after the end.")]
internal sealed class ServedHandler<T>(Session session, T face, Func<T, CancellationToken, Task> method)
    where T : IDisposable
{
    private readonly CancellationTokenSource _stop = new();
    private ConnectionHost? _host;

    /// <summary>Cancelled when the server begins to stop, and when the connection has ended.</summary>
    internal CancellationToken Token => _stop.Token;

    /// <summary>Name of the method in messages.</summary>
    internal string Name => UserCode.MethodOf(method) ?? "a handler";

    internal void Cancel() => _stop.Cancel();

    /// <summary>Starts the handler. Called in OnConnected of the session.</summary>
    internal void Begin()
    {
        _host = session.Connection!.Host;
        _host.HandlerBegan(session);
        // With callbacks on the pool the handler runs there; the session itself stays on the loop.
        if (_host.Options.Scheduling == Scheduling.ThreadPool)
            session.Loop.Engine.Offload(static s => _ = ((ServedHandler<T>)s!).ServeAsync(), this);
        else _ = ServeAsync();
    }

    private async Task ServeAsync()
    {
        CancellationToken stop = _stop.Token;
        try
        {
            await method(face, stop).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            // The handler has ended because of its token.
        }
        catch (Exception e)
        {
            Threw(e);
        }

        face.Dispose();
        _host!.HandlerEnded(session);
    }

    private void Threw(Exception exception)
    {
        if (exception is NetworkException { Error.Category: not ErrorCategory.Timeout }
            || (exception is ObjectDisposedException && !session.IsConnected))
        {
            // The connection failed, and its end is reported elsewhere.
            session.Abort();
            return;
        }

        session.Loop.Engine.UserCodeThrew(exception);
        _host!.CountUserException();
        session.AbortWith(new CloseReason(CloseCause.UserException, 0, exception));
        _host.NoteUserException($"The handler {Name}", $" of {session}", exception,
            "Its connection was aborted; other connections continue.");
    }
}
