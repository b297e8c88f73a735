using System.IO.Pipelines;
using System.Net;
using System.Net.Sockets;
using Microsoft.AspNetCore.Connections;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace Whimbrel.Kestrel;

/// <summary>
/// The transport: listeners for Kestrel or other users of <see cref="IConnectionListenerFactory"/>, and client
/// connections. Each connection is a <see cref="ConnectionContext"/> over a <see cref="ConnectionPipe"/>. Owns the
/// engine, unless the options contain one. Thread-safe.
/// </summary>
public sealed partial class WhimbrelTransport
    : IConnectionListenerFactory, IConnectionListenerFactorySelector, IConnectionFactory, IAsyncDisposable
{
    private readonly Lock _gate = new();
    private readonly ILogger _logger;
    private readonly ProcessUpgrade? _upgrade;
    private Engine? _own;
    private bool _isDisposed;

    /// <summary>Creates the transport. Called by the services of a host.</summary>
    /// <param name="options">Options, read when the first end point is bound.</param>
    /// <param name="loggers">Loggers for diagnostic events of the engine and the listeners, as warnings.</param>
    /// <param name="upgrade">Upgrade of the process, in which the listeners take part; null for none. It is a service
    /// of the host, which <c>AddWhimbrelUpgrade</c> of <c>Whimbrel.Hosting</c> adds.</param>
    public WhimbrelTransport(IOptions<WhimbrelTransportOptions> options, ILoggerFactory loggers,
        ProcessUpgrade? upgrade = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(loggers);
        Options = options.Value;
        _upgrade = upgrade;
        _logger = loggers.CreateLogger("Whimbrel.Kestrel");
        Pipes = new ConnectionPipeOptions
        {
            Scheduler = Options.Scheduling == Scheduling.Inline ? PipeScheduler.Inline : PipeScheduler.ThreadPool,
            HoldBytes = Options.MaxReadBufferBytes,
            ReadFailure = WhimbrelConnection.FailureOf,
            AwaitsPeer = false, // as with the stock transport: the disposing caller has read all it needs
        };
    }

    internal WhimbrelTransportOptions Options { get; }

    internal ConnectionPipeOptions Pipes { get; }

    private Engine Engine
    {
        get
        {
            if (Options.Engine is { } shared) return shared;
            lock (_gate)
            {
                ObjectDisposedException.ThrowIf(_isDisposed, this);
                return _own ??= new Engine(Options.EngineOptions
                    ?? new EngineOptions { Name = "kestrel", OnDiagnosticEvent = Report });
            }
        }
    }

    /// <summary>
    /// Returns true for TCP and Unix end points, and for listening sockets that are given by a file handle.
    /// </summary>
    /// <param name="endpoint">End point to check.</param>
    public bool CanBind(EndPoint endpoint) => endpoint is IPEndPoint or UnixDomainSocketEndPoint or FileHandleEndPoint
        or InheritedSocket;

    /// <summary>Listens at an end point.</summary>
    /// <param name="endpoint">
    /// TCP or Unix end point, or a <see cref="FileHandleEndPoint"/> or <see cref="InheritedSocket"/> of a listening
    /// socket, as <c>ListenHandle</c> and <c>UseSystemd</c> give it (Linux). Port 0 selects a free port, which the
    /// listener's end point contains.
    /// </param>
    /// <param name="cancellationToken">Cancels the call.</param>
    /// <exception cref="AddressInUseException">The address is in use.</exception>
    /// <exception cref="NotSupportedException">The end point is of another kind.</exception>
    /// <exception cref="ArgumentException">
    /// The <see cref="WhimbrelTransportOptions"/> have mistakes; the message names all of them.
    /// </exception>
    public async ValueTask<IConnectionListener> BindAsync(EndPoint endpoint,
        CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(endpoint);
        if (endpoint is FileHandleEndPoint handle) endpoint = SocketOf(handle);
        if (endpoint is not (IPEndPoint or UnixDomainSocketEndPoint or InheritedSocket))
            throw new NotSupportedException($"Whimbrel listens on TCP and Unix sockets, and {endpoint} is neither.");
        if (Options.FindMistakes() is { } mistakes) throw new ArgumentException(mistakes);
        WhimbrelListener listener = new(this, new ServerOptions
        {
            Engine = Engine,
            EndPoint = endpoint,
            Socket = new() { Backlog = Options.Backlog, NoDelay = Options.NoDelay },
            Limits = new()
            {
                Connections = Options.MaxConnections,
                SendBytes = Options.MaxWriteBufferBytes,
                SlowConsumer = SlowConsumer.Wait,
            },
            Timeouts = new() { Drain = Options.DrainTimeout },
            Upgrade = _upgrade,
            OnDiagnosticEvent = Report,
        });
        try
        {
            await listener.StartAsync(cancellationToken).ConfigureAwait(false);
            return listener;
        }
        catch (NetworkException e) when (e.Error.SocketError == SocketError.AddressAlreadyInUse)
        {
            await listener.DisposeAsync().ConfigureAwait(false);
            throw new AddressInUseException(e.Message, e);
        }
        catch
        {
            await listener.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    private static InheritedSocket SocketOf(FileHandleEndPoint handle)
    {
        if (handle.FileHandleType == FileHandleType.Pipe)
            throw new NotSupportedException($"Whimbrel listens on sockets, and handle {handle.FileHandle} is a pipe.");
        try
        {
            return new InheritedSocket(checked((int)handle.FileHandle));
        }
        catch (Exception e) when (e is ArgumentException or OverflowException)
        {
            throw new NotSupportedException($"Whimbrel cannot listen on handle {handle.FileHandle}: {e.Message}", e);
        }
    }

    /// <summary>Connects to an end point.</summary>
    /// <param name="endpoint">TCP or Unix end point, or a host name with a port.</param>
    /// <param name="cancellationToken">Cancels the attempt.</param>
    /// <returns>The connection. Dispose it to close it.</returns>
    public async ValueTask<ConnectionContext> ConnectAsync(EndPoint endpoint,
        CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(endpoint);
        if (Options.FindMistakes() is { } mistakes) throw new ArgumentException(mistakes);
        ClientOptions options = new()
        {
            Engine = Engine,
            EndPoint = endpoint,
            Socket = new() { NoDelay = Options.NoDelay },
            Limits = new() { SendBytes = Options.MaxWriteBufferBytes, SlowConsumer = SlowConsumer.Wait },
            Timeouts = new() { Drain = Options.DrainTimeout },
            OnDiagnosticEvent = Report,
        };
        return new WhimbrelConnection(
            await ConnectionPipe.ConnectAsync(options, Pipes, cancellationToken).ConfigureAwait(false), null);
    }

    /// <summary>Stops the engine that the transport created, and with it all open connections.</summary>
    public async ValueTask DisposeAsync()
    {
        Engine? own;
        lock (_gate)
        {
            _isDisposed = true;
            own = _own;
            _own = null;
        }

        if (own is not null) await own.DisposeAsync().ConfigureAwait(false);
    }

    private void Report(DiagnosticEvent notice) =>
        Noticed(_logger, notice.Kind, notice.Message, notice.Help, notice.Exception);

    [LoggerMessage(1, LogLevel.Warning, "{Kind}: {Message} {Help}", EventName = "DiagnosticEvent")]
    private static partial void Noticed(ILogger logger, DiagnosticEventKind kind, string message, string help,
        Exception? exception);
}
