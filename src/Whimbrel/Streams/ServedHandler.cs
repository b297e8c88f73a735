using Whimbrel.Connections;
using Whimbrel.Engines;

namespace Whimbrel.Streams;

/// <summary>
/// The call of a server's handler that serves one pulled connection: where it runs, its token, what becomes of what it throws. Owner: the
/// session of that connection.
/// </summary>
/// <typeparam name="T">The face of the session that the handler is given; disposed when it returns.</typeparam>
[System.Diagnostics.CodeAnalysis.SuppressMessage("Design", "CA1001", Justification = "A token source without a timer or a wait handle owns nothing to give back, and the handler may look at its token after the end.")]
internal sealed class ServedHandler<T>(Session session, T face, Func<T, CancellationToken, Task> method)
    where T : IDisposable
{
    private readonly CancellationTokenSource _stop = new();
    private ConnectionHost? _host;

    /// <summary>Cancelled when the server begins to stop, and when the connection has ended.</summary>
    internal CancellationToken Token => _stop.Token;

    /// <summary>The method, as in messages.</summary>
    internal string Name => UserCode.MethodOf(method) ?? "a handler";

    internal void Cancel() => _stop.Cancel();

    /// <summary>In OnConnected of the session.</summary>
    internal void Begin()
    {
        _host = session.Connection!.Host;
        _host.HandlerBegan(session);
        // With callbacks on the pool, that is where the handler runs; what is inside of the session stays on the loop.
        if (_host.Options.Scheduling == Scheduling.ThreadPool) session.Loop.Engine.Offload(static s => _ = ((ServedHandler<T>)s!).ServeAsync(), this);
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
            // It was told to stop, and has.
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
        if (exception is NetworkException { Error.Category: not ErrorCategory.Timeout } || (exception is ObjectDisposedException && !session.IsConnected))
        {
            // The connection failed under it, and that is the connection's own news.
            session.Abort();
            return;
        }

        session.Loop.Engine.UserCodeThrew(exception);
        _host!.CountUserException();
        session.AbortWith(new CloseReason(CloseCause.UserException, 0, exception));
        _host.NoteUserException($"The handler {Name}", $" of {session}", exception, "Its connection was aborted; the others go on.");
    }
}
