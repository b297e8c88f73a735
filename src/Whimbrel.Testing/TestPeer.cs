using System.Net;
using System.Runtime.InteropServices;
using System.Text;
using Whimbrel.Connections;

namespace Whimbrel.Testing;

/// <summary>
/// The other end of one session under test, controlled by the test step by step, without sockets and threads. Each call
/// first runs until nothing is left to do, so that its result is final, and rethrows exceptions of the session.
/// </summary>
/// <remarks>
/// By default a peer reads all data, and sends FIN after the session has closed. It does not read while
/// <see cref="IsReading"/> is false. Several peers can share one <see cref="TestNetwork"/>. Not thread-safe: one test,
/// one thread.
/// </remarks>
public sealed class TestPeer : IDisposable
{
    private readonly byte[] _piece = new byte[16 * 1024];
    private readonly List<byte> _received = [];
    private readonly List<byte> _outgoing = []; // the bytes before _outgoingAt were sent
    private int _outgoingAt;
    private MemoryPeer? _wire;
    private int _mayRead;
    private bool _ownsNetwork;
    private Session? _session;
    private Connection? _connection;
    private uint _generation;
    private CloseReason? _reason;
    private bool _finishAsked;
    private bool _isFinishSent;
    private bool _hasFinished;
    private bool _isClosed;
    private bool _wasReset;

    internal TestPeer(TestNetwork network, MemoryPeer? wire)
    {
        Network = network;
        _wire = wire;
    }

    // ------------------------------------------------------------------ creation

    /// <summary>
    /// Creates a network with a peer that connects; the factory creates the session, as a server would.
    /// </summary>
    /// <param name="factory">Factory of the session under test.</param>
    public static TestPeer Connect(Func<Session> factory) => Alone(network => network.Connect(factory));

    /// <summary>Creates a network with a peer that connects. The factory receives the connection.</summary>
    /// <param name="factory">Factory of the session under test.</param>
    public static TestPeer Connect(Func<SessionContext, Session> factory) => Alone(network => network.Connect(factory));

    /// <summary>
    /// Creates a network with a peer that accepts a connection; the factory creates the session, as a client would.
    /// </summary>
    /// <param name="factory">Factory of the session under test.</param>
    public static TestPeer Accept(Func<Session> factory) => Alone(network => network.Accept(factory));

    private static TestPeer Alone(Func<TestNetwork, TestPeer> make)
    {
        TestNetwork network = new();
        try
        {
            TestPeer peer = make(network);
            peer._ownsNetwork = true;
            return peer;
        }
        catch
        {
            network.RethrowsExceptions = false;
            network.Dispose();
            throw;
        }
    }

    // ------------------------------------------------------------------ state

    /// <summary>Network of the peer.</summary>
    public TestNetwork Network { get; }

    /// <summary>The session under test; after a hand-over the current session.</summary>
    /// <exception cref="InvalidOperationException">
    /// The server created no session, for example because it was full.
    /// </exception>
    public Session Session => Live?.Session ?? _session
        ?? throw new InvalidOperationException("No session was made for this peer: the server refused the connection.");

    /// <summary>Address of the peer, as seen by the session.</summary>
    public EndPoint? EndPoint => _wire?.LocalEndPoint;

    /// <summary>Whether the session can send and receive.</summary>
    public bool IsConnected
    {
        get
        {
            Network.Run();
            return Live is { IsOpen: true };
        }
    }

    /// <summary>Reason of the session's end, as passed to its last callback; null before.</summary>
    public CloseReason? CloseReason
    {
        get
        {
            Network.Run();
            return _reason;
        }
    }

    /// <summary>Whether the session has called <c>PauseReceiving</c>.</summary>
    public bool IsPaused
    {
        get
        {
            Network.Run();
            return Live is { IsPaused: true };
        }
    }

    /// <summary>Whether the session is not read because its send queue is full (contract 9).</summary>
    public bool IsAboveHighWaterMark
    {
        get
        {
            Network.Run();
            return Live is { IsAboveHighWaterMark: true };
        }
    }

    /// <summary>Number of bytes in the session's send queue; above 0 only if this peer does not read.</summary>
    public long BytesPending
    {
        get
        {
            Network.Run();
            return Live?.BytesPending ?? 0;
        }
    }

    /// <summary>
    /// Number of unsent bytes of this peer, because the session does not read. They are sent automatically.
    /// </summary>
    public int BytesUnsent
    {
        get
        {
            Network.Run();
            return UnsentCount;
        }
    }

    /// <summary>Number of bytes that have arrived and were not received by the test.</summary>
    public int Available
    {
        get
        {
            Network.Run();
            return _received.Count;
        }
    }

    /// <summary>Whether the session's FIN and all data before it have arrived.</summary>
    public bool IsSessionFinished
    {
        get
        {
            Network.Run();
            return _hasFinished;
        }
    }

    /// <summary>Whether the connection was reset, by either side.</summary>
    public bool IsReset
    {
        get
        {
            Network.Run();
            return _wasReset || _wire is { IsConnected: false } && !_isClosed;
        }
    }

    /// <summary>The connection, while it serves this peer.</summary>
    private Connection? Live =>
        _connection is { } connection && connection.Generation == _generation ? connection : null;

    // ------------------------------------------------------------------ behaviour

    /// <summary>Whether the session receives every byte separately, to test split messages. Default false.</summary>
    public bool SplitEveryByte { get; set; }

    /// <summary>
    /// Whether this peer reads. Otherwise the connection fills (64 KiB), then the session's send queue, up to its
    /// limit. Default true. See <see cref="ReadAtMost"/>.
    /// </summary>
    public bool IsReading { get; set; } = true;

    // ------------------------------------------------------------------ sending and receiving

    /// <summary>Sends bytes, and runs the session.</summary>
    /// <param name="data">Bytes to send.</param>
    /// <exception cref="IOException">The connection has ended.</exception>
    public void Send(ReadOnlySpan<byte> data)
    {
        if (_finishAsked) throw new InvalidOperationException("This peer has finished sending.");
        Network.Run();
        if (_isClosed || _reason is not null)
            throw new IOException($"The connection has ended{(_reason is { } reason ? $" ({reason.Cause})" : "")}.");
        _outgoing.AddRange(data);
        Network.Run();
    }

    /// <summary>
    /// Reads a limited number of bytes although <see cref="IsReading"/> is false, to simulate a slow peer.
    /// </summary>
    /// <param name="count">Maximum number of bytes to read.</param>
    public void ReadAtMost(int count)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(count);
        _mayRead = count;
        Network.Run();
        _mayRead = 0;
    }

    /// <summary>Sends text as UTF-8, and runs the session.</summary>
    /// <param name="text">Text to send.</param>
    public void Send(string text) => Send(Encoding.UTF8.GetBytes(text));

    /// <summary>Returns all bytes that have arrived since the last call; empty if there are none.</summary>
    public byte[] Receive()
    {
        Network.Run();
        return Take(_received.Count);
    }

    /// <summary>Returns exactly this number of bytes.</summary>
    /// <param name="count">Number of bytes.</param>
    /// <exception cref="InvalidOperationException">Fewer bytes have arrived; the message shows them.</exception>
    public byte[] Receive(int count)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(count);
        Network.Run();
        if (_received.Count < count)
            throw new InvalidOperationException(
                $"{count} bytes were expected, and {_received.Count} have come: {Shown()}");
        return Take(count);
    }

    /// <summary>Returns all bytes that have arrived since the last call, as UTF-8 text.</summary>
    public string ReceiveText() => Encoding.UTF8.GetString(Receive());

    /// <summary>Returns the next line without its end (LF or CR LF).</summary>
    /// <exception cref="InvalidOperationException">
    /// No complete line has arrived; the message shows the received bytes.
    /// </exception>
    public string ReceiveLine()
    {
        Network.Run();
        int end = _received.IndexOf((byte)'\n');
        if (end < 0) throw new InvalidOperationException($"A line was expected, and this has come: {Shown()}");
        return Encoding.UTF8.GetString(Take(end + 1).AsSpan().TrimEnd("\r\n"u8));
    }

    /// <summary>Runs an action on the session's loop, outside of any callback, as a posted action.</summary>
    /// <param name="action">Action to run. Its exceptions are rethrown.</param>
    public void OnLoop(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        Session.Loop.Post(action);
        Network.Run();
    }

    /// <summary>Runs until nothing is left to do. See <see cref="TestNetwork.Run"/>.</summary>
    public void Run() => Network.Run();

    /// <summary>Advances virtual time. See <see cref="TestNetwork.Advance"/>.</summary>
    /// <param name="time">Zero or more.</param>
    public void Advance(TimeSpan time) => Network.Advance(time);

    // ------------------------------------------------------------------ ending

    /// <summary>Sends FIN after the sent bytes; the peer still receives.</summary>
    public void Finish()
    {
        _finishAsked = true;
        Network.Run();
    }

    /// <summary>Resets the connection, as after a crash of the peer.</summary>
    public void Reset()
    {
        if (_isClosed) return;
        _finishAsked = true;
        _isClosed = true;
        _wasReset = true;
        _wire?.Reset();
        Network.Run();
    }

    /// <summary>Closes the connection: the session receives FIN, or a reset if this peer has unread bytes.</summary>
    public void Close()
    {
        CloseQuietly();
        Network.Run();
    }

    internal void CloseQuietly()
    {
        if (_isClosed) return;
        _finishAsked = true;
        _isClosed = true;
        _wire?.Close();
    }

    /// <summary>
    /// Closes the connection and disposes a network of its own. Exceptions of user code are rethrown.
    /// </summary>
    public void Dispose()
    {
        if (_ownsNetwork) Network.Dispose();
        else if (!_isClosed) Close();
    }

    // ------------------------------------------------------------------ for the network

    internal void Take(MemoryPeer? wire) => _wire = wire;

    internal void Serve(Session session)
    {
        _session = session;
        _connection = session.Connection;
        _generation = session.Generation;
    }

    internal void End(Session session, CloseReason reason)
    {
        _session = session;
        _reason = reason;
    }

    /// <summary>Moves bytes between the connection and this peer. Returns false if nothing moved.</summary>
    internal bool Pump()
    {
        if (_isClosed || _wire is not { } wire) return false;
        try
        {
            return Read(wire) | Write(wire) | FinishIfAsked(wire);
        }
        catch (IOException)
        {
            _wasReset = true;
            _outgoing.Clear();
            _outgoingAt = 0;
            _isClosed = true;
            wire.Close();
            return true;
        }
    }

    private bool Read(MemoryPeer wire)
    {
        int most = IsReading ? _piece.Length : Math.Min(_mayRead, _piece.Length);
        if (most == 0 || _hasFinished) return false;
        int count = wire.Read(_piece.AsSpan(0, most));
        if (count < 0) return false;
        if (!IsReading) _mayRead -= count;
        if (count > 0) _received.AddRange(_piece.AsSpan(0, count));
        else _hasFinished = true;
        return true;
    }

    private int UnsentCount => _outgoing.Count - _outgoingAt;

    private bool Write(MemoryPeer wire)
    {
        if (UnsentCount == 0) return false;
        int count = wire.Write(CollectionsMarshal.AsSpan(_outgoing)
            .Slice(_outgoingAt, SplitEveryByte ? 1 : UnsentCount));
        _outgoingAt += count;
        if (UnsentCount == 0)
        {
            _outgoing.Clear();
            _outgoingAt = 0;
        }

        return count > 0;
    }

    private bool FinishIfAsked(MemoryPeer wire)
    {
        if (_isFinishSent) return false;
        // A closed session waits for the peer's FIN; a session that has only sent FIN may still receive.
        bool isOver = _hasFinished && Live is not { IsOpen: true };
        if (!isOver && !(_finishAsked && UnsentCount == 0)) return false;
        _isFinishSent = true;
        wire.ShutdownSend();
        return true;
    }

    private byte[] Take(int count)
    {
        byte[] bytes = [.. _received[..count]];
        _received.RemoveRange(0, count);
        return bytes;
    }

    private string Shown()
    {
        const int Most = 200;
        string text = Encoding.UTF8.GetString([.. _received.Take(Most)])
            .Replace("\r", "\\r", StringComparison.Ordinal).Replace("\n", "\\n", StringComparison.Ordinal);
        return $"\"{text}\"{(_received.Count > Most ? " ..." : "")}";
    }
}
