using System.Net.Sockets;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.Differences;

/// <summary>Calls and callbacks of a TcpSession.</summary>
internal static class SessionCalls
{
    internal static IEnumerable<Behaviour> All =>
    [
        new(
            "Session: sends of nothing, and every form of a send",
            static () => Seen.Lines(
                Empty,
                Forms),
            "True True True 0 0 0 ~ True True True 2 2 3 abdeijlmnoqrs"),
        new(
            "Session: calls after the end, and in OnDisconnected",
            static () => Seen.Lines(
                Ended,
                InDisconnected),
            "False False 0 0 False 0 0 False ~ False False 0 0 False False 1"),
        new(
            "Session: calls in OnDisconnecting of a connection that the peer has ended",
            InDisconnecting,
            "ends the process",
            "False True 0 0 True True 1",
            "a send in `OnDisconnecting`"),
        new(
            "Session: Disconnect twice, flags after Dispose",
            static () => Seen.Lines(
                DisconnectTwice,
                Disposed),
            "True False False 1 ~ True True False False False 0 0 False"),
        new(
            "Session: Disconnect in OnReceived and in OnConnected",
            static () => Seen.Lines(
                DisconnectInReceived,
                DisconnectInConnected),
            "session: begins x, session: disconnecting True, server: disconnecting, session: disconnected False, "
            + "server: disconnected, session: ends True False ~ session: connecting False, server: connecting, "
            + "session: connected True, session: disconnecting True, server: disconnecting, session: disconnected "
            + "False, server: disconnected, session: ends True False, server: connected",
            "session: begins x, session: disconnecting True, server: disconnecting, session: ends True False, "
            + "session: disconnected False, server: disconnected ~ session: connecting False, server: connecting, "
            + "session: connected True, session: disconnecting True, server: disconnecting, session: ends True "
            + "False, server: connected, session: disconnected False, server: disconnected",
            "`Disconnect` in a callback of the same session"),
        new(
            "Session: calls in OnConnecting",
            InConnecting,
            "early False False 0 0 False 0 False 1 True True"),
        new(
            "Session: counters in its callbacks and after the end",
            static () => Seen.Lines(
                Counters,
                CountersAfter),
            "BytesPending=0 BytesSending=0 BytesSent=0 BytesReceived=0 | BytesPending=0 BytesSending=0 "
            + "BytesSent=0 BytesReceived=5 | BytesPending=0 BytesSending=0 BytesSent=0 BytesReceived=5 | "
            + "BytesPending=0 BytesSending=0 BytesSent=0 BytesReceived=5 ~ BytesPending=0 BytesSending=0 "
            + "BytesSent=5 BytesReceived=5"),
        new(
            "Session: OnSent and OnEmpty of a SendAsync",
            Telling,
            "call True, empty, empty, sent 5 0"),
        new(
            "Session: OnSent and OnEmpty of a Send",
            TellingSync,
            "call 5, empty, sent 5 0",
            "call 5, empty, empty, sent 5 0",
            "`OnEmpty` after a `Send`"),
        new(
            "Session: a slice outside the array",
            Outside,
            "ArgumentOutOfRangeException ArgumentOutOfRangeException ArgumentOutOfRangeException "
            + "ArgumentOutOfRangeException True"),
        new(
            "Session: null for an array and a text",
            Nulls,
            "True ArgumentNullException 0 True ArgumentNullException True",
            "ArgumentNullException ArgumentNullException ArgumentNullException ArgumentNullException "
            + "ArgumentNullException True",
            "null for the array of a send"),
        new(
            "Session: more than OptionSendBufferLimit and OptionReceiveBufferLimit",
            static () => Seen.Lines(
                SendLimit,
                ReceiveLimit),
            "False True True session: error NoBufferSpaceAvailable ~ session: error NoBufferSpaceAvailable, "
            + "session: disconnecting True, server: disconnecting, session: disconnected False, server: "
            + "disconnected"),
        new(
            "Session: the array of OnReceived",
            ReceivedArray,
            "0 5 of 8192, a new one, 0 4 of 8192, the same",
            "0 5 of 256, a new one, 0 4 of 256, the same",
            "the length of the array of `OnReceived`"),
        new(
            "Session: Socket, its end points and flags",
            Sockets,
            "False False True True True True False"),
        new(
            "Session: Receive in OnConnected",
            ReceiveInConnected,
            "does not return",
            "receive InvalidOperationException",
            "`Receive` inside a callback"),
        new(
            "Session: a text outside ASCII, options after Start",
            static () => Seen.Lines(
                Utf8,
                OptionsLater),
            "True 5 ~ ReceiveBufferLimit=0 ReceiveBufferSize=8192 SendBufferLimit=0 SendBufferSize=8192"),
    ];

    private static string Sends(TcpSession session) => Seen.All(
        () => session.SendAsync("x"), () => session.SendAsync(""), () => session.Send("x"), () => session.Send(""),
        () => session.IsConnected);

    private static string Empty()
    {
        using Pair pair = new();
        return Seen.All(
            () => pair.Session.SendAsync(Array.Empty<byte>()), () => pair.Session.SendAsync(""),
            () => pair.Session.SendAsync(new byte[3], 3, 0),
            () => pair.Session.Send(Array.Empty<byte>()), () => pair.Session.Send(""), () => pair.Session.BytesSent);
    }

    private static string Forms()
    {
        using Pair pair = new();
        string text = Seen.All(
            () => pair.Session.SendAsync("ab"), () => pair.Session.SendAsync("cdef".AsSpan(1, 2)),
            () => pair.Session.SendAsync("ghijk"u8.ToArray(), 2, 2), () => pair.Session.Send("lm"),
            () => pair.Session.Send("no".AsSpan()),
            () => pair.Session.Send("pqrs"u8.ToArray(), 1, 3));
        Log.Until(() => pair.Client.Received == 13, "the bytes");
        var received = pair.ClientLog.Lines.Where(static l => l.Contains("received")).Select(static l => l[17..]);
        return $"{text} {string.Concat(received)}";
    }

    private static string Ended()
    {
        using Pair pair = new();
        pair.Client.Disconnect();
        Log.Until(() => pair.Server.ConnectedSessions == 0, "the end");
        TcpSession session = pair.Session;
        return Seen.All(
            () => Sends(session), () => session.Receive(new byte[4]), () => session.Receive(4).Length,
            () => session.Disconnect());
    }

    private static string InDisconnected() => At(static (s, act) => s.AtDisconnected = act);

    private static string InDisconnecting() => At(static (s, act) => s.AtDisconnecting = act);

    private static string At(Action<RecordingSession, Action<RecordingSession>> set)
    {
        string? said = null;
        using Pair pair = new(s => s.Make = own =>
        {
            RecordingSession session = new(own);
            set(session, x => said ??= Seen.All(() => Sends(x), () => x.Disconnect(), () => own.ConnectedSessions));
            return session;
        });
        pair.Client.Disconnect();
        Log.Until(() => Volatile.Read(ref said) is not null, "the callback");
        Log.Until(() => pair.Server.ConnectedSessions == 0, "the end");
        return said!;
    }

    private static string DisconnectTwice()
    {
        using Pair pair = new();
        return Seen.All(
            () => pair.Session.Disconnect(), () => pair.Session.Disconnect(), () => pair.Session.IsConnected,
            () => pair.Log.Count("session: disconnected False"));
    }

    private static string DisconnectInReceived()
    {
        using Pair pair = new(static s => s.Make = static own => new RecordingSession(own)
        {
            AtReceived = (x, text) =>
            {
                own.Log.Add($"session: begins {text}");
                own.Log.Add($"session: ends {x.Disconnect()} {x.IsConnected}");
            },
        });
        int before = pair.Log.Lines.Length;
        pair.Client.SendAsync("x");
        pair.Log.Until("server: disconnected");
        pair.Log.Until("session: ends True False");
        return string.Join(", ", pair.Log.Lines[before..]);
    }

    private static string DisconnectInConnected()
    {
        Log log = new();
        using RecordingServer server = new(log);
        server.Make = static own => new RecordingSession(own)
        {
            AtConnected = x => own.Log.Add($"session: ends {x.Disconnect()} {x.IsConnected}"),
        };
        server.Start();
        int before = log.Lines.Length;
        using Socket peer = Cost.Connect(server.Chosen);
        log.Until("server: disconnected");
        log.Until("session: ends True False");
        Log.Until(() => server.ConnectedSessions == 0, "the end");
        return string.Join(", ", log.Lines[before..]);
    }

    private static string InConnecting()
    {
        Log log = new();
        using RecordingServer server = new(log);
        server.Make = static own => new EarlySession(own);
        server.Start();
        using Socket peer = Cost.Connect(server.Chosen);
        log.Until("server: connected");
        return log.Lines.First(static l => l.StartsWith("early", StringComparison.Ordinal));
    }

    private sealed class EarlySession(RecordingServer server) : RecordingSession(server)
    {
        protected override void OnConnecting() => Log.Add("early " + Seen.All(
            () => Sends(this), () => Receive(4).Length, () => Disconnect(), () => Server.ConnectedSessions,
            () => Server.FindSession(Id) == this, () => Socket is not null));
    }

    private static string Counters()
    {
        Log log = new();
        using RecordingServer server = new(log);
        server.Make = static own => new RecordingSession(own)
        {
            AtConnected = x => own.Log.Add("session: " + Count(x)),
            AtReceived = (x, _) => own.Log.Add("session: " + Count(x)),
            AtDisconnecting = x => own.Log.Add("session: " + Count(x)),
            AtDisconnected = x => own.Log.Add("session: " + Count(x)),
        };
        server.Start();
        using Socket peer = Cost.Connect(server.Chosen);
        log.Until("server: connected");
        peer.Send("12345"u8);
        log.Until("session: " + "BytesPending=0 BytesSending=0 BytesSent=0 BytesReceived=5");
        peer.Dispose();
        log.Until("server: disconnected");
        return string.Join(" | ",
            log.Lines.Where(static l => l.Contains("Bytes", StringComparison.Ordinal)).Select(static l => l[9..]));
    }

    private static string Count(TcpSession session) =>
        Seen.Properties(session, "BytesPending", "BytesSending", "BytesSent", "BytesReceived");

    private static string CountersAfter()
    {
        using Pair pair = new();
        pair.Client.SendAsync("12345");
        pair.ClientLog.Until("client: received 12345");
        pair.Client.Disconnect();
        Log.Until(() => pair.Server.ConnectedSessions == 0, "the end");
        return Count(pair.Session);
    }

    private static string Telling() => Told(static x => x.SendAsync("12345"), static l => l.Count("empty") >= 2);

    private static string TellingSync() => Told(static x => x.Send("12345"), static l => l.Count("sent 5 0") >= 1);

    private static string Told(Func<TcpSession, object> send, Func<Log, bool> isDone)
    {
        using Pair pair = new(static s => s.Make = static own => new TellingSession(own));
        TellingSession session = (TellingSession)pair.Session;
        session.Told.Until("empty");
        session.Told.Add($"call {send(session)}");
        Log.Until(() => isDone(session.Told), Seen.Of(session.Told));
        Log.Until(() => session.Told.Lines.Length >= 3, Seen.Of(session.Told));
        return string.Join(", ", session.Told.Lines.Order(StringComparer.Ordinal));
    }

    private sealed class TellingSession(RecordingServer server) : RecordingSession(server)
    {
        internal Log Told { get; } = new();

        protected override void OnSent(long sent, long pending) => Told.Add($"sent {sent} {pending}");

        protected override void OnEmpty() => Told.Add("empty");
    }

    private static string Outside()
    {
        using Pair pair = new();
        return Seen.All(
            () => pair.Session.SendAsync(new byte[4], 2, 3), () => pair.Session.SendAsync(new byte[4], -1, 2),
            () => pair.Session.Send(new byte[4], 5, 0), () => pair.Session.Receive(new byte[4], 2, 3),
            () => pair.Session.IsConnected);
    }

    private static string Nulls()
    {
        using Pair pair = new();
        return Seen.All(
            () => pair.Session.SendAsync((byte[])null!), () => pair.Session.SendAsync((string)null!),
            () => pair.Session.Send((byte[])null!),
            () => pair.Server.Multicast((byte[])null!), () => pair.Server.Multicast((string)null!),
            () => pair.Session.IsConnected);
    }

    private static string SendLimit()
    {
        using Pair pair =
            new(static s => s.Make = static own => new RecordingSession(own) { OptionSendBufferLimit = 8 });
        string text = Seen.All(() => pair.Session.SendAsync("123456789"), () => pair.Session.SendAsync("12345678"));
        pair.ClientLog.Until("client: received 12345678");
        return $"{text} {Seen.All(() => pair.Session.IsConnected)} "
            + $"{string.Join(", ", pair.Log.Lines.Where(static l => l.Contains("error")))}";
    }

    private static string ReceiveLimit()
    {
        using Pair pair = new(static s =>
        {
            s.OptionReceiveBufferSize = 16;
            s.Make = static own =>
                new RecordingSession(own) { OptionReceiveBufferLimit = 16, AtReceived = static (_, _) => { } };
        });
        int before = pair.Log.Lines.Length;
        pair.Client.SendAsync(new byte[64]);
        pair.Log.Until("server: disconnected");
        return string.Join(", ", pair.Log.Lines[before..]);
    }

    private static string ReceivedArray()
    {
        using Pair pair = new(static s => s.Make = static own => new ArraySession(own));
        ArraySession session = (ArraySession)pair.Session;
        pair.Client.SendAsync("12345");
        Log.Until(() => session.Told.Lines.Length == 1, "bytes");
        pair.Client.SendAsync("1234");
        Log.Until(() => session.Told.Lines.Length == 2, "bytes");
        return Seen.Of(session.Told);
    }

    private sealed class ArraySession(RecordingServer server) : RecordingSession(server)
    {
        private byte[]? _last;

        internal Log Told { get; } = new();

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            Told.Add(
                $"{offset} {size} of {buffer.Length}, {(ReferenceEquals(_last, buffer) ? "the same" : "a new one")}");
            _last = buffer;
        }
    }

    private static string Sockets()
    {
        using Pair pair = new();
        Socket socket = pair.Session.Socket;
        string text = Seen.All(
            () => pair.Session.IsDisposed, () => pair.Session.IsSocketDisposed, () => socket.Connected,
            () => socket.LocalEndPoint!.Equals(pair.Server.Endpoint),
            () => socket.RemoteEndPoint!.Equals(pair.Client.Socket.LocalEndPoint));
        pair.Session.Disconnect();
        Log.Until(() => Seen.One(() => socket.Available) == nameof(ObjectDisposedException), "the end of the socket");
        return $"{text} {Seen.All(() => pair.Session.IsSocketDisposed, () => pair.Session.Socket is null)}";
    }

    private static string Disposed()
    {
        using Pair pair = new();
        pair.Session.Dispose();
        pair.Session.Dispose();
        pair.Log.Until("server: disconnected");
        return Seen.All(
            () => pair.Session.IsDisposed, () => pair.Session.IsSocketDisposed, () => pair.Session.IsConnected,
            () => Sends(pair.Session));
    }

    private static string ReceiveInConnected()
    {
        Log log = new();
        using RecordingServer server = new(log);
        server.Make = static own => new RecordingSession(own)
        {
            AtConnected = x => own.Log.Add("receive " + Seen.One(() => x.Receive(4))),
        };
        server.Start();
        using Socket peer = Cost.Connect(server.Chosen);
        peer.Send("1234"u8);
        Log.Until(() => log.Lines.Any(static l => l.StartsWith("receive", StringComparison.Ordinal)), "the call");
        return log.Lines.First(static l => l.StartsWith("receive", StringComparison.Ordinal));
    }

    private static string Utf8()
    {
        using Pair pair = new();
        string text = Seen.All(() => pair.Session.SendAsync("é€"), () => pair.Session.Send("é€"));
        Log.Until(() => pair.Client.Received == 10, "the bytes");
        return text;
    }

    private static string OptionsLater()
    {
        using Pair pair = new();
        pair.Server.OptionReceiveBufferSize = 77;
        return Seen.Options(pair.Session);
    }
}
