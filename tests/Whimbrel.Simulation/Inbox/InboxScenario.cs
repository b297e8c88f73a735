using System.Buffers;
using System.Buffers.Binary;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Engines;
using Whimbrel.Testing;

namespace Whimbrel.Simulation.Inbox;

/// <summary>
/// Several callers send to the inboxes of several connections, by every form, at points of the run that the seed
/// chooses, also in the middle of a move. Between their calls are broadcasts, joins, posts, marks, closes, shutdowns,
/// resets after which the object serves another peer, hand-overs, upgrades to TLS and what callbacks send. The model:
/// each peer reads what was accepted, whole, once and in the order of the calls, and no other bytes.
/// </summary>
internal sealed class InboxScenario
{
    private const int Callers = 3;
    private const int Header = 9;
    private const int FileBlock = 2_048; // bytes of each value in the file
    private const int Limit = 64 * 1024 * 1024;
    private const int NarrowLimit = 4096;
    private const byte InTheMiddleOf = 4;
    private const byte OfPost = 8;
    private const byte OfCallback = 9;

    private static readonly MemoryEndPoint s_here = new("here");
    private static TlsOptions? s_tls;
    private static FileSource? s_file;

    private readonly int _seed;
    private readonly Random _random;
    private readonly MemoryEngine _engine;
    private readonly SessionGroup _group = new();
    private readonly List<InboxPlace> _places = [];
    private readonly bool _isNarrow;
    private readonly bool _usesGroup;
    private readonly Queue<InboxPlace> _arriving = [];
    private int _count;
    private int _calls; // that are to come
    private string? _wrong;
    private int _ownedOut; // owned memory that the library has accepted and not returned
    private InboxPlace? _moving; // its message is in the middle of a call or a move

    private InboxScenario(int seed)
    {
        _seed = seed;
        _random = new Random(seed);
        _engine = new MemoryEngine(
            seed,
            loops: 1 + _random.Next(2),
            faults: MemoryFaults.None with { WireBytes = Chance(3) ? 1000 : 256 * 1024, Split = Chance(2) ? 300 : 0 },
            mailboxLimitBytes: Chance(4) ? 20_000 : 0);
        // Where sends may be refused, members would miss messages; and with groups a callback may send before a
        // broadcast that waits.
        _isNarrow = Chance(3);
        _usesGroup = !_isNarrow && Chance(2);
    }

    internal static TlsOptions Tls => s_tls ??= MakeTls();

    private static FileSource File => s_file ??= MakeFile();

    internal static void Run(int seed)
    {
        InboxScenario scenario = new(seed);
        try
        {
            scenario.Run();
        }
        catch (Exception e)
        {
            throw new OracleException($"seed {seed}: {e.GetType().Name}: {e.Message}\n{e.StackTrace}");
        }
    }

    internal bool Chance(int of) => _random.Next(of) == 0;

    internal void SendInCallback(InboxSession session)
    {
        if (Chance(3)) return;
        byte[] message = Message(OfCallback);
        if (session.Send(message) == SendResult.Queued) Accept(session.Place, message);
    }

    /// <summary>
    /// Another caller makes a call where user code runs in the middle of a call, or of a move: the memory of a message
    /// is read or returned there. Not for the connection of that message: a caller waits for the end of a move.
    /// </summary>
    private void InTheMiddle(InboxPlace place)
    {
        if (_moving is not null || _calls == 0 || !Chance(3)) return;
        _moving = place;
        Loop.RunOffLoop(static s => ((InboxScenario)s!).Call(InTheMiddleOf), this);
        _moving = null;
    }

    private static void Accept(InboxPlace place, byte[] message)
    {
        place.Expected.Add((message, null));
        place.Accepted += message.Length;
    }

    /// <summary>A block for each value of a byte.</summary>
    private static FileSource MakeFile()
    {
        string path = Path.GetTempFileName();
        byte[] content = new byte[256 * FileBlock];
        for (int i = 0; i < 256; i++) content.AsSpan(i * FileBlock, FileBlock).Fill((byte)i);
        System.IO.File.WriteAllBytes(path, content);
        FileSource file = new(System.IO.File.OpenHandle(path));
        System.IO.File.Delete(path);
        return file;
    }

    private static TlsOptions MakeTls()
    {
        using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        X509Certificate2 certificate = new CertificateRequest("CN=here", key, HashAlgorithmName.SHA256)
            .CreateSelfSigned(DateTimeOffset.UnixEpoch, DateTimeOffset.UnixEpoch.AddYears(200));
        return new TlsOptions { Certificate = TlsCertificate.From(certificate) };
    }

    private void Run()
    {
        Server server = new(
            new ServerOptions
            {
                Engine = _engine,
                EndPoint = s_here,
                Limits = new() { SendBytes = _isNarrow ? NarrowLimit : Limit, SlowConsumer = SlowConsumer.Wait },
                Scheduling = Chance(2) ? Scheduling.ThreadPool : Scheduling.Inline,
            },
            () => new InboxSession(this, _arriving.Dequeue()));
        _engine.Run(server.StartAsync());
        for (int count = 2 + _random.Next(3); count > 0; count--) BeginOne();
        for (int caller = 1; caller <= Callers; caller++)
        {
            int calls = 3 + _random.Next(8);
            _calls += calls;
            GoOn(caller, calls);
        }

        while (_calls > 0)
        {
            Check(_engine.RunOne(), "the calls of a caller do not run");
            CheckMarks(isEnd: false);
            ReadSome();
        }

        do _engine.RunUntilIdle();
        while (ReadAll());
        Check(_arriving.Count == 0, "no session for a peer");
        foreach (InboxPlace place in _places)
        {
            if (place.Session is null) continue;
            if (!place.IsTls)
                Check(place.Session.BytesPending == 0, $"{place.Session.BytesPending} bytes are pending for ever");
        }

        foreach (InboxPlace place in _places) Judge(place);
        CheckMarks(isEnd: false);
        _engine.Run(server.StopAsync(TimeSpan.Zero));
        _engine.Run(_engine.DisposeAsync());
        // Continuations of tasks are queued on the pool.
        _engine.RunUntilIdle();
        foreach (InboxPlace place in _places)
            Check(place.Expected.TrueForAll(static e => e.Sending is not { IsCompleted: false }),
                "a SendAsync has not ended");
        Check(_wrong is null, _wrong ?? "");
        CheckMarks(isEnd: true);
        Check(_ownedOut == 0, $"{_ownedOut} pieces of owned memory are missing");
        foreach (InboxPlace place in _places) JudgeEnd(place);
        Check(_engine.ReadCounters().MailboxBytes == 0, "bytes of the mailbox's limit are missing");
        foreach (Loop loop in _engine.Loops)
        {
            Check(loop.InboxItems.Outstanding == 0, $"{loop.InboxItems.Outstanding} entries are missing");
            Check(loop.Blocks.Outstanding == 0, $"{loop.Blocks.Outstanding} blocks are missing");
        }
    }

    private void BeginOne()
    {
        ConnectOne();
        _engine.RunUntilIdle();
        Check(_arriving.Count == 0, "no session for a peer");
    }

    private void ConnectOne()
    {
        InboxPlace place = new();
        _arriving.Enqueue(place);
        place.Peer = _engine.Connect(s_here);
        _places.Add(place);
    }

    /// <summary>The next call of a caller, some time later.</summary>
    private void GoOn(int caller, int left)
    {
        _engine.Elsewhere(() =>
        {
            _calls--;
            Call((byte)caller);
            if (left > 1) GoOn(caller, left - 1);
        });
    }

    private void Call(byte caller)
    {
        InboxPlace place = _places[_random.Next(_places.Count)];
        // The other case: it has not been accepted yet.
        if (ReferenceEquals(place, _moving) || place.Session is not { } session) return;
        byte[] message = Message(caller);
        int call = _random.Next(_usesGroup ? 22 : 19);
        // Joins, leaves and broadcasts come last.
        if (call is >= 14 and < 18) CallRarely(call, place, session, message);
        else CallOften(call < 14 ? call : call - 4, place, session, message);
    }

    private void CallRarely(int call, InboxPlace place, InboxSession session, byte[] message)
    {
        switch (call)
        {
            case 14:
                int size = Math.Min(message.Length - Header, FileBlock);
                if (size < message.Length - Header) break;
                Report(place, message, session.Send(
                    Outgoing.File(File, message[^1] * FileBlock, size).WithHead(message.AsSpan(0, Header))));
                break;
            case 15:
                long before = place.Accepted;
                place.Marks.Add((session.SentAsync().AsTask(), before));
                break;
            case 16 when Chance(4) && !place.IsChanging && !place.IsTls:
                session.ShutdownSend();
                place.IsClosed = place.IsShut = place.IsChanging = true;
                break;
            case 17 when Chance(3) && _places.Count < 6:
                place.Peer!.Reset();
                place.IsReset = place.IsClosed = place.IsChanging = place.IsDeaf = true;
                // The object of the connection may serve the next peer while callers still have the old session.
                if (_arriving.Count == 0) ConnectOne();
                break;
        }
    }

    private void CallOften(int call, InboxPlace place, InboxSession session, byte[] message)
    {
        switch (call)
        {
            case 0 or 1 or 2:
                Report(place, message, session.Send(message));
                break;
            case 3:
                int cut = _random.Next(message.Length);
                Report(place, message, session.Send(Outgoing.Pieces(message.AsSpan(0, cut), message.AsSpan(cut))));
                break;
            case 4:
                int head = _random.Next(message.Length);
                _ownedOut++;
                SendResult owned = session.Send(
                    Outgoing.Owned(new Owned(this, place, message), head, message.Length - head)
                        .WithHead(message.AsSpan(0, head)));
                if (owned != SendResult.Queued) _ownedOut--;
                Report(place, message, owned);
                break;
            case 5 or 6:
                SendToEach(message);
                break;
            case 7:
                ValueTask<SendResult> sending = session.SendAsync(message);
                if (sending.IsCompleted) Report(place, message, sending.GetAwaiter().GetResult());
                else place.Expected.Add((message, sending.AsTask()));
                break;
            case 8:
                message[0] = OfPost;
                session.Post(() => Report(place, message, session.Send(message)));
                break;
            case 9 or 10 when !place.IsDeaf:
                place.Peer!.Write([InboxSession.Answer]);
                break;
            case 11 when !place.IsChanging:
                place.IsChanging = true;
                place.Peer!.Write([InboxSession.GiveAway]);
                break;
            case 12 when !place.IsChanging && Chance(4):
                place.IsChanging = place.IsDeaf = true;
                place.Peer!.Write([InboxSession.StartTls]);
                break;
            case 13 when Chance(4) && !place.IsChanging:
                session.Close();
                place.IsClosed = true;
                break;
            case 14 when !_usesGroup && !place.IsDeaf:
                // The close of a callback comes before broadcasts that wait.
                place.IsChanging = place.IsDeaf = true;
                place.Peer!.Write([InboxSession.Part]);
                break;
            case 14 or 15:
                if (_group.Broadcast(message) != SendResult.Queued) break;
                foreach (InboxPlace each in _places)
                {
                    // No mark counts it: SentAsync looks at what was sent to its session.
                    if (each is { IsMember: true, IsClosed: false }) each.Expected.Add((message, null));
                }

                break;
            case 16 when !place.IsChanging:
                _group.Join(session);
                place.IsMember = true;
                break;
            case 17 when !place.IsChanging:
                _group.Leave(session);
                place.IsMember = false;
                break;
        }
    }

    private void SendToEach(byte[] message)
    {
        IEnumerable<InboxPlace> known = _places.Where(p => p.Session is not null && !ReferenceEquals(p, _moving));
        InboxPlace[] some = [.. known.Where(_ => Chance(2)).Concat(known.Where(_ => Chance(8)))];
        SendResult[] results = new SendResult[some.Length];
        int taken = Session.SendToEach(message, [.. some.Select(static p => p.Session!)], results);
        Check(taken == results.Count(static r => r == SendResult.Queued), "SendToEach counts others than it names");
        for (int i = 0; i < some.Length; i++) Report(some[i], message, results[i]);
    }

    private void Report(InboxPlace place, byte[] message, SendResult result)
    {
        if (result == SendResult.Queued) Accept(place, message);
        else Check(result == SendResult.Closed || _isNarrow || result == SendResult.Full, $"a send gave {result}");
    }

    /// <summary>Sender, length and number; then bytes by that number.</summary>
    private byte[] Message(byte sender)
    {
        int most = _isNarrow ? 900 : Chance(20) ? 70_000 : 2_000;
        byte[] message = new byte[Header + 1 + _random.Next(Chance(3) ? most : 60)];
        message[0] = sender;
        BinaryPrimitives.WriteInt32LittleEndian(message.AsSpan(1), message.Length);
        BinaryPrimitives.WriteInt32LittleEndian(message.AsSpan(5), ++_count);
        message.AsSpan(Header).Fill((byte)_count);
        return message;
    }

    private void ReadSome()
    {
        if (Chance(3)) Read(_places[_random.Next(_places.Count)]);
        else if (_engine.StepCount % 64 == 0) ReadAll();
    }

    private bool ReadAll()
    {
        bool any = false;
        foreach (InboxPlace place in _places) any |= Read(place);
        return any;
    }

    private static bool Read(InboxPlace place)
    {
        byte[] buffer = ArrayPool<byte>.Shared.Rent(64 * 1024);
        bool any = false;
        for (int count; !place.IsReset && (count = place.Peer!.Read(buffer)) > 0; any = true)
            place.Got.AddRange(buffer.AsSpan(0, count));
        ArrayPool<byte>.Shared.Return(buffer);
        return any;
    }

    /// <summary>A mark that is true comes after the last byte that was accepted before it.</summary>
    private void CheckMarks(bool isEnd)
    {
        foreach (InboxPlace place in _places)
        {
            foreach ((Task<bool> sent, long bytes) in place.Marks)
            {
                Check(sent.IsCompletedSuccessfully || !isEnd, "a SentAsync has not ended");
                if (isEnd || place.IsReset || sent is not { IsCompletedSuccessfully: true, Result: true }) continue;
                int came = place.Got.Count + place.Peer!.Available;
                Check(came >= bytes, $"SentAsync says that {bytes} bytes were sent, and {came} have arrived (TLS: "
                    + $"{place.IsTls}, groups: {_usesGroup}, "
                    + $"shut: {place.IsShut}, closed: {place.IsClosed}, the end: {place.Reason})");
            }
        }
    }

    private void JudgeEnd(InboxPlace place)
    {
        if (place.Session is null) return;
        Check(place.Ends == 1, $"a connection ended {place.Ends} times");
    }

    private void Judge(InboxPlace place)
    {
        if (place.IsShut && !place.IsReset)
            Check(place.Peer!.Read([0]) == 0, "the peer of a connection that was shut down has not read the end");

        ReadOnlySpan<byte> got = System.Runtime.InteropServices.CollectionsMarshal.AsSpan(place.Got);
        List<(byte Sender, int Number)> messages = [];
        while (!got.IsEmpty)
        {
            int length = got.Length < 9 ? int.MaxValue : BinaryPrimitives.ReadInt32LittleEndian(got[1..]);
            if (place.IsReset && length > got.Length) break;
            Check(length >= 9 && length <= got.Length, $"half a message arrived, or bytes that are none (TLS: "
                + $"{place.IsTls}): {Convert.ToHexString(got[..Math.Min(got.Length, 16)])}, {got.Length} bytes after "
                + $"{string.Join(' ', messages)}");
            int number = BinaryPrimitives.ReadInt32LittleEndian(got[5..]);
            Check(!got[9..length].ContainsAnyExcept((byte)number), $"message {number} has other bytes");
            messages.Add((got[0], number));
            got = got[length..];
        }

        // Posted work has no order with sends of other threads in between; with groups, sends of a callback have none
        // either.
        foreach (Func<byte, bool> has in (Func<byte, bool>[])[s => s == OfPost,
            s => s == OfCallback || (!_usesGroup && s < OfPost), s => s < OfPost])
        {
            List<(byte Sender, int Number)> expected =
            [
                .. place.Expected.Where(
                    static e => e.Sending is null or { IsCompletedSuccessfully: true, Result: SendResult.Queued })
                    .Select(static e => (e.Message[0], BinaryPrimitives.ReadInt32LittleEndian(e.Message.AsSpan(5))))
                    .Where(m => has(m.Item1)),
            ];
            Same(expected, [.. messages.Where(m => has(m.Sender))], place.IsTls || place.IsReset);
        }
    }

    /// <summary>With TLS what was sent after the upgrade waits for ever: no more than a beginning arrives.</summary>
    private void Same(List<(byte Sender, int Number)> expected, List<(byte Sender, int Number)> got, bool isBeginning)
    {
        bool isRight = isBeginning
            ? got.Count <= expected.Count && expected[..got.Count].SequenceEqual(got)
            : expected.SequenceEqual(got);
        if (!isRight) Check(false, $"expected {string.Join(' ', expected)}\ngot {string.Join(' ', got)}");
    }

    private void Check(bool isRight, string what)
    {
        if (isRight) return;
        // Inside a callback the library catches it, so it is kept for the end as well.
        _wrong ??= what;
        throw new OracleException($"seed {_seed}: {what}");
    }

    private sealed class Owned(InboxScenario scenario, InboxPlace place, byte[] bytes) : IMemoryOwner<byte>
    {
        private int _returned;

        public Memory<byte> Memory
        {
            get
            {
                scenario.Check(_returned == 0, "memory is read after it was returned");
                scenario.InTheMiddle(place);
                return bytes;
            }
        }

        public void Dispose()
        {
            scenario.Check(++_returned == 1, "memory is returned twice");
            scenario._ownedOut--;
            scenario.InTheMiddle(place);
        }
    }
}
