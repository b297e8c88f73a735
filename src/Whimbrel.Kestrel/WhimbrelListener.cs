using System.Net;
using System.Net.Sockets;
using System.Threading.Channels;
using Microsoft.AspNetCore.Connections;

namespace Whimbrel.Kestrel;

/// <summary>
/// Listener of one end point: a <see cref="Server"/> with a channel of connections to be accepted, limited by the
/// server's connection limit. A connection is owned by the channel, then by its acceptor; the handler of its pipe
/// returns when the acceptor has disposed it.
/// </summary>
internal sealed class WhimbrelListener : IConnectionListener
{
    // Continuations run on the loop, because Kestrel itself hands each connection over to the thread pool.
    private readonly Channel<WhimbrelConnection> _accepted = Channel.CreateUnbounded<WhimbrelConnection>(
        new UnboundedChannelOptions { AllowSynchronousContinuations = true });

    private readonly Server _server;
    private readonly bool _isMapped;

    internal WhimbrelListener(WhimbrelTransport transport, ServerOptions options)
    {
        EndPoint = options.EndPoint!;
        _isMapped = EndPoint.AddressFamily == AddressFamily.InterNetworkV6;
        _server = new Server(options, ConnectionPipe.Serve(ServeAsync, transport.Pipes));
    }

    /// <summary>Listening end point, with the port that the system chose.</summary>
    public EndPoint EndPoint { get; private set; }

    internal async ValueTask StartAsync(CancellationToken cancellation)
    {
        await _server.StartAsync(cancellation).ConfigureAwait(false);
        EndPoint = _server.EndPoint!;
    }

    private Task ServeAsync(ConnectionPipe pipe, CancellationToken stop)
    {
        TaskCompletionSource over = new(TaskCreationOptions.RunContinuationsAsynchronously);
        if (_accepted.Writer.TryWrite(new WhimbrelConnection(pipe, over, _isMapped))) return over.Task;
        // The channel is closed: no caller accepts any more.
        pipe.Abort();
        return Task.CompletedTask;
    }

    /// <summary>Returns the next connection, or null if the listener is unbound and has none left.</summary>
    public async ValueTask<ConnectionContext?> AcceptAsync(CancellationToken cancellationToken = default)
    {
        while (await _accepted.Reader.WaitToReadAsync(cancellationToken).ConfigureAwait(false))
        {
            if (_accepted.Reader.TryRead(out WhimbrelConnection? connection)) return connection;
        }

        return null;
    }

    /// <summary>Stops listening. Connections that the system has completed can still be accepted.</summary>
    public async ValueTask UnbindAsync(CancellationToken cancellationToken = default)
    {
        if (_server.IsAccepting) await _server.StopAcceptingAsync().ConfigureAwait(false);
        _accepted.Writer.TryComplete();
    }

    /// <summary>
    /// Ends all connections: those not yet accepted are aborted, disposed ones send their queued data, others are
    /// aborted at the deadline.
    /// </summary>
    public async ValueTask DisposeAsync()
    {
        await UnbindAsync().ConfigureAwait(false);
        while (_accepted.Reader.TryRead(out WhimbrelConnection? connection))
        {
            connection.Abort();
            await connection.DisposeAsync().ConfigureAwait(false);
        }

        await _server.StopAsync().ConfigureAwait(false);
    }
}
