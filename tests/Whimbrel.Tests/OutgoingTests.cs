using System.Buffers;
using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Every form of Outgoing with Send and SendAsync, with room and without, on the loop and from another thread.
public sealed class OutgoingTests : IDisposable
{
    private const int Limit = 4096;

    private static readonly MemoryEndPoint s_here = new("here");

    private static readonly (string Form, string Expected)[] s_forms =
    [
        ("two spans", "one two"),
        ("pieces 0", ""),
        ("pieces 1", "one"),
        ("pieces 2", "one two"),
        ("pieces 5", "one two three"),
        ("sequence 1", "a segment"),
        ("sequence 2", "one two"),
        ("text", "h\u00E4"),
        ("owned", "owned memory"),
        ("owned part", "head:memory"),
        ("shared", "shared bytes"),
        ("shared part", "head:bytes"),
        ("file", "text of a file"),
        ("file part", "head:of a"),
        ("file part, head in memory", "head:of a"),
        ("written", "written"),
    ];

    private readonly string _path = Path.GetTempFileName();
    private readonly FileSource _file;
    private readonly Owned _ownerOfShared = new("shared bytes"u8.ToArray());
    private readonly SharedBytes _shared;
    private readonly MessageWriter _writer = new();
    private readonly Owned _owned = new("owned memory"u8.ToArray());
    private readonly Silent _session = new();
    private readonly MemoryEngine _engine = new(1, faults: MemoryFaults.None with { WireBytes = 1 });
    private readonly MemoryPeer _peer;

    public OutgoingTests()
    {
        File.WriteAllText(_path, "text of a file");
        _file = new FileSource(_path);
        _shared = new SharedBytes(_ownerOfShared, 12);
        ServerOptions options = new()
        {
            Engine = _engine,
            EndPoint = s_here,
            Limits = new() { SendBytes = Limit, SlowConsumer = SlowConsumer.Wait },
        };
        Server server = new(options, () => _session);
        _engine.Run(server.StartAsync());
        _peer = _engine.Connect(s_here);
        _engine.RunUntilIdle();
    }

    public static TheoryData<string, string> Forms
    {
        get
        {
            TheoryData<string, string> forms = [];
            foreach ((string form, string expected) in s_forms) forms.Add(form, expected);
            return forms;
        }
    }

    public void Dispose()
    {
        _engine.Run(_engine.DisposeAsync());
        Assert.Equal(0, _engine.Loops[0].Blocks.Outstanding);
        Assert.Equal(0, _ownerOfShared.Disposals);
        _shared.Dispose();
        Assert.Equal(1, _ownerOfShared.Disposals); // no send has kept a loan
        _file.Dispose();
        File.Delete(_path);
    }

    [Theory]
    [MemberData(nameof(Forms))]
    public void Every_form_arrives_as_one_message_by_Send_and_by_SendAsync(string form, string expected)
    {
        foreach (bool onLoop in (bool[])[true, false])
        {
            foreach (bool awaits in (bool[])[false, true])
            {
                int before = _owned.Disposals;
                SendResult result = default;
                if (onLoop) _session.Loop.Post(() => result = SendNow(form, awaits));
                else result = SendNow(form, awaits);
                Assert.Equal(expected, Read(expected));
                Assert.Equal(SendResult.Queued, result);
                Assert.Equal(before + (IsOwned(form) ? 1 : 0), _owned.Disposals);
                Assert.Equal(0, _writer.Length);
            }
        }
    }

    [Theory]
    [MemberData(nameof(Forms))]
    public void SendAsync_of_every_form_that_waits_keeps_what_it_sends(string form, string expected)
    {
        if (form == "pieces 0") return; // nothing to wait for
        FillQueue();
        Task<SendResult> waiting = Start(form);
        _engine.RunUntilIdle();
        Assert.False(waiting.IsCompleted);
        Assert.Equal(0, _owned.Disposals);
        if (form == "written") Assert.Throws<InvalidOperationException>(() => _writer.GetSpan(1));
        Assert.Equal(new string('.', Limit) + expected, Read(new string('.', Limit) + expected));
        Assert.Equal(SendResult.Queued, _engine.Run(new ValueTask<SendResult>(waiting)));
        Assert.Equal(IsOwned(form) ? 1 : 0, _owned.Disposals);
        Assert.Equal(0, _writer.Length);
        _writer.Write("usable again"u8);
    }

    [Fact]
    public void A_cancelled_SendAsync_takes_neither_owned_memory_nor_the_content_of_a_writer()
    {
        FillQueue();
        using CancellationTokenSource cancel = new();
        _writer.Write("written"u8);
        CancellationToken token = cancel.Token;
        Task<SendResult> owned = _session.SendAsync(Outgoing.Owned(_owned, 5).WithHead("head"u8), token).AsTask();
        Task<SendResult> written = _session.SendAsync(Outgoing.Written(_writer), token).AsTask();
        _engine.RunUntilIdle();
        Assert.False(owned.IsCompleted || written.IsCompleted);
        cancel.Cancel();
        _engine.RunUntilIdle();
        Assert.ThrowsAny<OperationCanceledException>(() => _engine.Run(new ValueTask<SendResult>(owned)));
        Assert.ThrowsAny<OperationCanceledException>(() => _engine.Run(new ValueTask<SendResult>(written)));
        Assert.Equal(0, _owned.Disposals);
        Assert.Equal("written", Encoding.UTF8.GetString(_writer.Written));
        _writer.Clear();
        Assert.Equal(new string('.', Limit), Read(new string('.', Limit)));
    }

    [Fact]
    public void After_the_end_every_form_is_Closed_and_nothing_is_taken()
    {
        _peer.Close();
        _engine.RunUntilIdle();
        foreach ((string form, _) in s_forms)
        {
            Assert.Equal(SendResult.Closed, SendNow(form, awaits: false));
            _writer.Clear();
            Assert.Equal(SendResult.Closed, SendNow(form, awaits: true));
            _writer.Clear();
        }

        Assert.Equal(0, _owned.Disposals);
    }

    [Fact]
    public void A_message_that_no_factory_created_throws_with_the_cure()
    {
        Throws<ArgumentException>("factory", () => _session.Send(default(Outgoing)));
        Throws<ArgumentException>("factory", () => { _ = _session.SendAsync(default(Outgoing)).AsTask(); });
        Throws<ArgumentException>("factory", () => default(Outgoing).WithHead("x"u8));
    }

    [Fact]
    public void A_head_where_none_is_taken_throws_with_the_cure()
    {
        ReadOnlyMemory<byte> part = "x"u8.ToArray();
        Action[] calls =
        [
            () => Outgoing.Pieces("x"u8, "y"u8).WithHead("head"u8),
            () => Outgoing.Pieces([part]).WithHead(part),
            () => Outgoing.Sequence(new ReadOnlySequence<byte>(part)).WithHead("head"u8),
            () => Outgoing.Text("x").WithHead("head"u8),
            () => Outgoing.Written(_writer).WithHead("head"u8),
        ];
        foreach (Action call in calls) Throws<InvalidOperationException>("Outgoing.Pieces", call);
        Throws<InvalidOperationException>("Join both", () => Outgoing.File(_file).WithHead("one"u8).WithHead("two"u8));
        Throws<InvalidOperationException>("Join both", () => Outgoing.Owned(_owned, 1).WithHead(part).WithHead(part));
    }

    [Fact]
    public void A_range_outside_of_the_memory_or_file_throws_at_both_sends_and_takes_nothing()
    {
        (int Offset, int Length)[] ranges = [(-1, 1), (0, -1), (0, 100), (100, 0), (1, int.MaxValue)];
        foreach ((int offset, int length) in ranges)
        {
            Action[] calls =
            [
                () => _session.Send(Outgoing.Owned(_owned, offset, length)),
                () => _ = _session.SendAsync(Outgoing.Owned(_owned, offset, length)).AsTask(),
                () => _session.Send(Outgoing.Shared(_shared, offset, length)),
                () => _ = _session.SendAsync(Outgoing.Shared(_shared, offset, length).WithHead("x"u8)).AsTask(),
                () => _session.Send(Outgoing.File(_file, offset, length)),
                () => _ = _session.SendAsync(Outgoing.File(_file, offset, length).WithHead("x"u8)).AsTask(),
            ];
            Assert.All(calls, static call => Assert.Throws<ArgumentOutOfRangeException>(call));
        }

        Assert.Equal("", Read(""));
        Assert.Equal(0, _owned.Disposals);
    }

    [Fact]
    public void A_missing_object_throws_in_the_factory()
    {
        Assert.Throws<ArgumentNullException>(() => { Outgoing.Owned(null!, 1); });
        Assert.Throws<ArgumentNullException>(() => { Outgoing.Shared(null!); });
        Assert.Throws<ArgumentNullException>(() => { Outgoing.File(null!); });
        Assert.Throws<ArgumentNullException>(() => { Outgoing.Written(null!); });
    }

    private static bool IsOwned(string form) => form.StartsWith("owned", StringComparison.Ordinal);

    private static void Throws<T>(string cure, Action call)
        where T : Exception => Assert.Contains(cure, Assert.Throws<T>(call).Message, StringComparison.Ordinal);

    private void FillQueue()
    {
        _session.Loop.Post(() => Assert.Equal(SendResult.Queued, _session.Send(new string('.', Limit))));
        _engine.RunUntilIdle();
        Assert.True(_session.BytesPending > Limit - 100, "the queue drains too early for a wait");
    }

    private SendResult SendNow(string form, bool awaits)
    {
        if (awaits)
        {
            ValueTask<SendResult> sending = SendAsync(form);
            Assert.True(sending.IsCompleted);
            return sending.Result;
        }

        ReadOnlyMemory<byte> one = "one"u8.ToArray(), two = " two"u8.ToArray(), three = " three"u8.ToArray();
        if (form == "written") _writer.Write("written"u8);
        return form switch
        {
            "two spans" => _session.Send(Outgoing.Pieces("one "u8, "two"u8)),
            "pieces 0" => _session.Send(Outgoing.Pieces([])),
            "pieces 1" => _session.Send(Outgoing.Pieces([one])),
            "pieces 2" => _session.Send(Outgoing.Pieces([one, two])),
            "pieces 5" => _session.Send(Outgoing.Pieces([one, default, two, default, three])),
            "sequence 1" => _session.Send(Outgoing.Sequence(new ReadOnlySequence<byte>("a segment"u8.ToArray()))),
            "sequence 2" => _session.Send(Outgoing.Sequence(Segment.Join(one, two))),
            "text" => _session.Send(Outgoing.Text("h\u00E4")),
            "owned" => _session.Send(Outgoing.Owned(_owned, 12)),
            "owned part" => _session.Send(Outgoing.Owned(_owned, 6, 6).WithHead("head:"u8)),
            "shared" => _session.Send(Outgoing.Shared(_shared)),
            "shared part" => _session.Send(Outgoing.Shared(_shared, 7, 5).WithHead("head:"u8)),
            "file" => _session.Send(Outgoing.File(_file)),
            "file part" => _session.Send(Outgoing.File(_file, 5, 4).WithHead("head:"u8)),
            "file part, head in memory" => _session.Send(Outgoing.File(_file, 5, 4).WithHead("head:"u8.ToArray())),
            _ => _session.Send(Outgoing.Written(_writer)),
        };
    }

    // Spans and texts are overwritten as soon as the call has returned.
    private ValueTask<SendResult> SendAsync(string form)
    {
        ReadOnlyMemory<byte> one = "one"u8.ToArray(), two = " two"u8.ToArray(), three = " three"u8.ToArray();
        Span<byte> head = stackalloc byte[5];
        "head:"u8.CopyTo(head);
        Span<char> text = ['h', '\u00E4'];
        if (form == "written") _writer.Write("written"u8);
        ValueTask<SendResult> sending = form switch
        {
            "two spans" => _session.SendAsync(Outgoing.Pieces("one "u8, "two"u8)),
            "pieces 0" => _session.SendAsync(Outgoing.Pieces([])),
            "pieces 1" => _session.SendAsync(Outgoing.Pieces([one])),
            "pieces 2" => _session.SendAsync(Outgoing.Pieces([one, two])),
            "pieces 5" => _session.SendAsync(Outgoing.Pieces([one, default, two, default, three])),
            "sequence 1" => _session.SendAsync(Outgoing.Sequence(new ReadOnlySequence<byte>("a segment"u8.ToArray()))),
            "sequence 2" => _session.SendAsync(Outgoing.Sequence(Segment.Join(one, two))),
            "text" => _session.SendAsync(Outgoing.Text(text)),
            "owned" => _session.SendAsync(Outgoing.Owned(_owned, 12)),
            "owned part" => _session.SendAsync(Outgoing.Owned(_owned, 6, 6).WithHead(head)),
            "shared" => _session.SendAsync(Outgoing.Shared(_shared)),
            "shared part" => _session.SendAsync(Outgoing.Shared(_shared, 7, 5).WithHead(head)),
            "file" => _session.SendAsync(Outgoing.File(_file)),
            "file part" => _session.SendAsync(Outgoing.File(_file, 5, 4).WithHead(head)),
            "file part, head in memory" => _session.SendAsync(Outgoing.File(_file, 5, 4).WithHead("head:"u8.ToArray())),
            _ => _session.SendAsync(Outgoing.Written(_writer)),
        };
        head.Fill((byte)'?');
        text.Fill('?');
        return sending;
    }

    private Task<SendResult> Start(string form)
    {
        Task<SendResult>? started = null;
        _session.Loop.Post(() => started = SendAsync(form).AsTask());
        while (started is null) _engine.RunUntilIdle();
        return started;
    }

    // Reads as many bytes as expected, and what arrives with them. The pool reads files, so the loop may be idle first.
    private string Read(string expected)
    {
        int least = Encoding.UTF8.GetByteCount(expected);
        List<byte> read = [];
        long deadline = Environment.TickCount64 + 30_000;
        do
        {
            _engine.RunUntilIdle();
            byte[] bytes = new byte[_peer.Available];
            _peer.Read(bytes);
            read.AddRange(bytes);
            if (bytes.Length == 0) Thread.Yield();
        }
        while ((read.Count < least || _session.BytesPending > 0) && Environment.TickCount64 < deadline);
        return Encoding.UTF8.GetString([.. read]);
    }

    private sealed class Silent : Session;

    private sealed class Owned(byte[] bytes) : IMemoryOwner<byte>
    {
        internal int Disposals { get; private set; }

        public Memory<byte> Memory => bytes;

        public void Dispose() => Disposals++;
    }

    private sealed class Segment : ReadOnlySequenceSegment<byte>
    {
        internal static ReadOnlySequence<byte> Join(ReadOnlyMemory<byte> first, ReadOnlyMemory<byte> second)
        {
            Segment end = new() { Memory = second, RunningIndex = first.Length };
            return new ReadOnlySequence<byte>(new Segment { Memory = first, Next = end }, 0, end, second.Length);
        }
    }
}
