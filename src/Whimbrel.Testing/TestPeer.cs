using System.Net;
using System.Runtime.InteropServices;
using System.Text;
using Whimbrel.Connections;

namespace Whimbrel.Testing;

/// <summary>
/// The other end of one session under test, driven step by step by the test, without sockets and threads. Each call first
/// lets everything happen that can happen, so that its answer is the last word; and it throws what the session threw.
/// </summary>
/// <remarks>
/// A peer is friendly: it reads what comes, and finishes when the session has closed. <see cref="IsReading"/> set to false
/// makes it one that does not read. Several peers meet in one <see cref="TestNetwork"/>.
/// Not thread-safe: one test, one thread.
/// </remarks>
public sealed class TestPeer : IDisposable
{
    private readonly byte[] _piece = new byte[16 * 1024];
    private readonly List<byte> _received = [];
    private readonly List<byte> _outgoing = []; // the connection has taken what lies before _outgoingAt
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

    // ------------------------------------------------------------------ birth

    /// <summary>A peer in a network of its own that has dialled; the factory makes the session, as a server would.</summary>
    /// <param name="factory">Makes the session under test.</param>
    public static TestPeer Connect(Func<Session> factory) => Alone(network => network.Connect(factory));

    /// <summary>The same with a factory that sees the connection.</summary>
    /// <param name="factory">Makes the session under test.</param>
    public static TestPeer Connect(Func<SessionContext, Session> factory) => Alone(network => network.Connect(factory));

    /// <summary>A peer in a network of its own that was dialled; the factory makes the session, as a client would.</summary>
    /// <param name="factory">Makes the session under test.</param>
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

    // ------------------------------------------------------------------ what it sees

    /// <summary>The world it lives in.</summary>
    public TestNetwork Network { get; }

    /// <summary>The session under test; after a hand-over the one that serves now.</summary>
    /// <exception cref="InvalidOperationException">The server made none, for instance because it was full.</exception>
    public Session Session => Live?.Session ?? _session ?? throw new InvalidOperationException("No session was made for this peer: the server refused the connection.");

    /// <summary>This peer's address, as the session sees it.</summary>
    public EndPoint? EndPoint => _wire?.LocalEndPoint;

    /// <summary>True while the session may send and receive.</summary>
    public bool IsConnected
    {
        get
        {
            Network.Run();
            return Live is { IsOpen: true };
        }
    }

    /// <summary>Why the session ended, as given to its last callback; null while it has not.</summary>
    public CloseReason? CloseReason
    {
        get
        {
            Network.Run();
            return _reason;
        }
    }

    /// <summary>True after the session's <c>PauseReceiving</c>.</summary>
    public bool IsPaused
    {
        get
        {
            Network.Run();
            return Live is { IsPaused: true };
        }
    }

    /// <summary>True while the session is not read because its own queue is full (contract 9).</summary>
    public bool IsHeldBack
    {
        get
        {
            Network.Run();
            return Live is { IsHeldBack: true };
        }
    }

    /// <summary>Bytes in the session's send queue: more than none only when this peer does not read.</summary>
    public long BytesPending
    {
        get
        {
            Network.Run();
            return Live?.BytesPending ?? 0;
        }
    }

    /// <summary>Bytes of this peer that the wire has not taken, because the session does not read. They go on by themselves.</summary>
    public int BytesUnsent
    {
        get
        {
            Network.Run();
            return UnsentCount;
        }
    }

    /// <summary>Bytes that have come and were not received by the test.</summary>
    public int Available
    {
        get
        {
            Network.Run();
            return _received.Count;
        }
    }

    /// <summary>The session's side has ended its sending, and everything before that has come.</summary>
    public bool IsSessionFinished
    {
        get
        {
            Network.Run();
            return _hasFinished;
        }
    }

    /// <summary>The connection was reset, by either side.</summary>
    public bool IsReset
    {
        get
        {
            Network.Run();
            return _wasReset || _wire is { IsConnected: false } && !_isClosed;
        }
    }

    /// <summary>The connection, while it still serves this peer.</summary>
    private Connection? Live => _connection is { } connection && connection.Generation == _generation ? connection : null;

    // ------------------------------------------------------------------ how it behaves

    /// <summary>The session gets every byte by itself: whatever it does with a whole message it must do with a split one. Default false.</summary>
    public bool SplitEveryByte { get; set; }

    /// <summary>Whether this peer reads. When it does not, the wire fills (64 KiB), then the session's send queue, up to its limit. Default true. See <see cref="ReadAtMost"/>.</summary>
    public bool IsReading { get; set; } = true;

    // ------------------------------------------------------------------ talking

    /// <summary>Sends, and lets the session answer.</summary>
    /// <param name="data">The bytes.</param>
    /// <exception cref="IOException">The connection has ended.</exception>
    public void Send(ReadOnlySpan<byte> data)
    {
        if (_finishAsked) throw new InvalidOperationException("This peer has finished sending.");
        Network.Run();
        if (_isClosed || _reason is not null) throw new IOException($"The connection has ended{(_reason is { } reason ? $" ({reason.Cause})" : "")}.");
        _outgoing.AddRange(data);
        Network.Run();
    }

    /// <summary>Reads so many bytes at most though <see cref="IsReading"/> is false: a slow peer, a step at a time.</summary>
    /// <param name="count">How many; fewer when fewer have come.</param>
    public void ReadAtMost(int count)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(count);
        _mayRead = count;
        Network.Run();
        _mayRead = 0;
    }

    /// <summary>Sends text as UTF-8, and lets the session answer.</summary>
    /// <param name="text">The text.</param>
    public void Send(string text) => Send(Encoding.UTF8.GetBytes(text));

    /// <summary>Everything that has come since the last call; empty when nothing has.</summary>
    public byte[] Receive()
    {
        Network.Run();
        return Take(_received.Count);
    }

    /// <summary>Exactly so many bytes.</summary>
    /// <param name="count">How many.</param>
    /// <exception cref="InvalidOperationException">Fewer have come; the message shows them.</exception>
    public byte[] Receive(int count)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(count);
        Network.Run();
        if (_received.Count < count) throw new InvalidOperationException($"{count} bytes were expected, and {_received.Count} have come: {Shown()}");
        return Take(count);
    }

    /// <summary>Everything that has come since the last call, as UTF-8.</summary>
    public string ReceiveText() => Encoding.UTF8.GetString(Receive());

    /// <summary>The next line, without its end (LF, or CR and LF).</summary>
    /// <exception cref="InvalidOperationException">No whole line has come; the message shows what has.</exception>
    public string ReceiveLine()
    {
        Network.Run();
        int end = _received.IndexOf((byte)'\n');
        if (end < 0) throw new InvalidOperationException($"A line was expected, and this has come: {Shown()}");
        return Encoding.UTF8.GetString(Take(end + 1).AsSpan().TrimEnd("\r\n"u8));
    }

    /// <summary>Runs it on the session's loop, outside of any callback, as a posted action.</summary>
    /// <param name="action">What it throws is rethrown.</param>
    public void OnLoop(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        Session.Loop.Post(action);
        Network.Run();
    }

    /// <summary>Lets everything happen that can happen now. See <see cref="TestNetwork.Run"/>.</summary>
    public void Run() => Network.Run();

    /// <summary>Lets virtual time pass. See <see cref="TestNetwork.Advance"/>.</summary>
    /// <param name="time">Zero or more.</param>
    public void Advance(TimeSpan time) => Network.Advance(time);

    // ------------------------------------------------------------------ ending

    /// <summary>Ends this peer's sending (FIN), after what was sent; it still receives.</summary>
    public void Finish()
    {
        _finishAsked = true;
        Network.Run();
    }

    /// <summary>Resets the connection, as a peer that crashed.</summary>
    public void Reset()
    {
        if (_isClosed) return;
        _finishAsked = true;
        _isClosed = true;
        _wasReset = true;
        _wire?.Reset();
        Network.Run();
    }

    /// <summary>Closes: the session sees the end of the stream, or a reset when this peer had not read all.</summary>
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

    /// <summary>Closes; a network of its own ends with it, and what user code threw meanwhile is thrown.</summary>
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

    /// <summary>Moves bytes between the wire and this peer. False when nothing moved.</summary>
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
        int count = wire.Write(CollectionsMarshal.AsSpan(_outgoing).Slice(_outgoingAt, SplitEveryByte ? 1 : UnsentCount));
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
        // A session that has closed waits for the peer's end; one that has only finished sending may want more.
        bool isOver = _hasFinished && Live is not { IsOpen: true };
        if (!isOver && !(_finishAsked && UnsentCount == 0)) return false;
        _isFinishSent = true;
        wire.FinishSending();
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
        string text = Encoding.UTF8.GetString([.. _received.Take(Most)]);
        return $"\"{text.Replace("\r", "\\r", StringComparison.Ordinal).Replace("\n", "\\n", StringComparison.Ordinal)}\"{(_received.Count > Most ? " ..." : "")}";
    }
}
