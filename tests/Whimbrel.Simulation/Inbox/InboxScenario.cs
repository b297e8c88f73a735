using System.Buffers;
using System.Buffers.Binary;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Engines;
using Whimbrel.Testing;

namespace Whimbrel.Simulation.Inbox;

/// <summary>
/// Several callers send to the inboxes of several connections, by every form, at points of the run that the seed chooses.
/// Between their calls are broadcasts, joins, posts, closes, hand-overs, upgrades to TLS and what callbacks send. The
/// model: each peer reads what was accepted, whole, once and in the order of the calls.
/// </summary>
internal sealed class InboxScenario
{
    private const int Callers = 3;
    private const int Limit = 64 * 1024 * 1024;
    private const int NarrowLimit = 4096;
    private const byte OfPost = 8;
    private const byte OfCallback = 9;

    private static readonly MemoryEndPoint s_here = new("here");
    private static TlsOptions? s_tls;

    private readonly int _seed;
    private readonly Random _random;
    private readonly MemoryEngine _engine;
    private readonly SessionGroup _group = new();
    private readonly List<InboxPlace> _places = [];
    private readonly bool _isNarrow;
    private readonly bool _usesGroup;
    private int _count;
    private int _calls; // that are to come

    private InboxScenario(int seed)
    {
        _seed = seed;
        _random = new Random(seed);
        _engine = new MemoryEngine(
            seed,
            loops: 1 + _random.Next(2),
            faults: MemoryFaults.None with { WireBytes = Chance(3) ? 1000 : 256 * 1024, Split = Chance(2) ? 300 : 0 },
            mailboxLimitBytes: Chance(4) ? 20_000 : 0);
        // Where sends may be refused, members would miss messages; and with groups a callback may send before a broadcast that waits.
        _isNarrow = Chance(3);
        _usesGroup = !_isNarrow && Chance(2);
    }

    internal static TlsOptions Tls => s_tls ??= MakeTls();

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
        if (session.Send(message) == SendResult.Queued) session.Place.Expected.Add((message, null));
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
        Queue<InboxPlace> arriving = [];
        Server server = new(
            new ServerOptions
            {
                Engine = _engine,
                EndPoint = s_here,
                Limits = new() { SendBytes = _isNarrow ? NarrowLimit : Limit, SlowConsumer = SlowConsumer.Wait },
                Scheduling = Chance(2) ? Scheduling.ThreadPool : Scheduling.Inline,
            },
            () => new InboxSession(this, arriving.Dequeue()));
        _engine.Run(server.StartAsync());
        for (int count = 2 + _random.Next(3); count > 0; count--) Connect(arriving);
        for (int caller = 1; caller <= Callers; caller++)
        {
            int calls = 3 + _random.Next(8);
            _calls += calls;
            GoOn(caller, calls);
        }

        while (_calls > 0)
        {
            Check(_engine.RunOne(), "the calls of a caller do not run");
            ReadSome();
        }

        do _engine.RunUntilIdle();
        while (ReadAll());
        foreach (InboxPlace place in _places)
        {
            if (!place.IsTls)
                Check(place.Session!.BytesPending == 0, $"{place.Session.BytesPending} bytes are pending for ever");
        }

        foreach (InboxPlace place in _places) Judge(place);
        _engine.Run(server.StopAsync(TimeSpan.Zero));
        _engine.Run(_engine.DisposeAsync());
        foreach (InboxPlace place in _places)
            Check(place.Expected.TrueForAll(static e => e.Sending is not { IsCompleted: false }),
                "a SendAsync has not ended");
        Check(_engine.ReadCounters().MailboxBytes == 0, "bytes of the mailbox's limit are missing");
        foreach (Loop loop in _engine.Loops)
        {
            Check(loop.InboxItems.Outstanding == 0, $"{loop.InboxItems.Outstanding} entries are missing");
            Check(loop.Blocks.Outstanding == 0, $"{loop.Blocks.Outstanding} blocks are missing");
        }
    }

    private void Connect(Queue<InboxPlace> arriving)
    {
        InboxPlace place = new();
        arriving.Enqueue(place);
        place.Peer = _engine.Connect(s_here);
        _engine.RunUntilIdle();
        Check(place.Session is not null, "no session for a peer");
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
        InboxSession session = place.Session!;
        byte[] message = Message(caller);
        switch (_random.Next(_usesGroup ? 18 : 15))
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
                Report(place, message, session.Send(Outgoing.Owned(new Owned(message), head, message.Length - head)
                    .WithHead(message.AsSpan(0, head))));
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
        InboxPlace[] some = [.. _places.Where(_ => Chance(2)).Concat(_places.Where(_ => Chance(8)))];
        SendResult[] results = new SendResult[some.Length];
        int taken = Session.SendToEach(message, [.. some.Select(static p => p.Session!)], results);
        Check(taken == results.Count(static r => r == SendResult.Queued), "SendToEach counts others than it names");
        for (int i = 0; i < some.Length; i++) Report(some[i], message, results[i]);
    }

    private void Report(InboxPlace place, byte[] message, SendResult result)
    {
        if (result == SendResult.Queued) place.Expected.Add((message, null));
        else Check(result == SendResult.Closed || _isNarrow || result == SendResult.Full, $"a send gave {result}");
    }

    /// <summary>Sender, length and number; then bytes by that number.</summary>
    private byte[] Message(byte sender)
    {
        int most = _isNarrow ? 900 : Chance(12) ? 70_000 : 2_000;
        byte[] message = new byte[9 + _random.Next(Chance(3) ? most : 60)];
        message[0] = sender;
        BinaryPrimitives.WriteInt32LittleEndian(message.AsSpan(1), message.Length);
        BinaryPrimitives.WriteInt32LittleEndian(message.AsSpan(5), ++_count);
        message.AsSpan(9).Fill((byte)_count);
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
        for (int count; (count = place.Peer!.Read(buffer)) > 0; any = true) place.Got.AddRange(buffer.AsSpan(0, count));
        ArrayPool<byte>.Shared.Return(buffer);
        return any;
    }

    private void Judge(InboxPlace place)
    {
        ReadOnlySpan<byte> got = System.Runtime.InteropServices.CollectionsMarshal.AsSpan(place.Got);
        List<(byte Sender, int Number)> messages = [];
        while (!got.IsEmpty)
        {
            int length = got.Length < 9 ? int.MaxValue : BinaryPrimitives.ReadInt32LittleEndian(got[1..]);
            Check(length >= 9 && length <= got.Length, $"half a message arrived, or bytes that are none (TLS: "
                + $"{place.IsTls}): {Convert.ToHexString(got[..Math.Min(got.Length, 16)])}, {got.Length} bytes after "
                + $"{string.Join(' ', messages)}");
            int number = BinaryPrimitives.ReadInt32LittleEndian(got[5..]);
            Check(!got[9..length].ContainsAnyExcept((byte)number), $"message {number} has other bytes");
            messages.Add((got[0], number));
            got = got[length..];
        }

        // What is posted has no order with what others send in between; and with groups what a callback sends has none, either.
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
            Same(expected, [.. messages.Where(m => has(m.Sender))], place.IsTls);
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
        if (!isRight) throw new OracleException($"seed {_seed}: {what}");
    }

    private sealed class Owned(byte[] bytes) : IMemoryOwner<byte>
    {
        public Memory<byte> Memory => bytes;

        public void Dispose()
        {
        }
    }
}
