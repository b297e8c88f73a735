using System.Net;
using System.Net.Sockets;
using System.Threading.Channels;
using Microsoft.AspNetCore.Connections;

namespace Whimbrel.Kestrel;

/// <summary>
/// One end point: a <see cref="Server"/> whose connections wait in a channel until somebody accepts them. How many there may be is the server's limit. A connection
/// belongs to the channel, then to who accepted it; the handler of its pipe returns when that one has disposed it.
/// </summary>
internal sealed class WhimbrelListener : IConnectionListener
{
    // On the loop that accepted: to begin with a connection is a hand-over to the pool, in Kestrel itself.
    private readonly Channel<WhimbrelConnection> _accepted = Channel.CreateUnbounded<WhimbrelConnection>(new UnboundedChannelOptions { AllowSynchronousContinuations = true });

    private readonly Server _server;
    private readonly bool _isMapped;

    internal WhimbrelListener(WhimbrelTransport transport, ServerOptions options)
    {
        EndPoint = options.EndPoint!;
        _isMapped = EndPoint.AddressFamily == AddressFamily.InterNetworkV6;
        _server = new Server(options, ConnectionPipe.Serve(ServeAsync, transport.Pipes));
    }

    /// <summary>Where it listens, with the port that the system chose.</summary>
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
        // Nobody accepts any more.
        pipe.Abort();
        return Task.CompletedTask;
    }

    /// <summary>The next connection, or null when there will be none.</summary>
    public async ValueTask<ConnectionContext?> AcceptAsync(CancellationToken cancellationToken = default)
    {
        while (await _accepted.Reader.WaitToReadAsync(cancellationToken).ConfigureAwait(false))
        {
            if (_accepted.Reader.TryRead(out WhimbrelConnection? connection)) return connection;
        }

        return null;
    }

    /// <summary>No new connections; those that the system had completed are still given to who accepts.</summary>
    public async ValueTask UnbindAsync(CancellationToken cancellationToken = default)
    {
        if (_server.IsAccepting) await _server.StopAcceptingAsync().ConfigureAwait(false);
        _accepted.Writer.TryComplete();
    }

    /// <summary>Ends all: connections that nobody has accepted are aborted, those that were disposed send what is queued, those that were not are aborted at the deadline.</summary>
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
