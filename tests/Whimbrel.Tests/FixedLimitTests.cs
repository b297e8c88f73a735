using System.Text;
using Microsoft.Win32.SafeHandles;
using Whimbrel.Buffers;
using Whimbrel.Conformance;
using Whimbrel.Datagrams;
using Whimbrel.Engines;
using Whimbrel.Testing;
using Whimbrel.Tls;

namespace Whimbrel.Tests;

// Fixed limits of docs/limits.md that nothing else shows: at the number, and one past it.
public sealed class FixedLimitTests
{
    [Theory]
    [InlineData(64, true)]
    [InlineData(65, false)]
    public void A_client_has_up_to_64_end_points(int count, bool isAllowed)
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        ClientOptions options = new()
        {
            Engine = engine,
            EndPoints = [.. Enumerable.Range(1, count).Select(static i => new MemoryEndPoint($"p{i}"))]
        };
        if (isAllowed)
            options.Validate(engine);
        else
            Assert.Contains("EndPoints has 65 entries, allowed 1 to 64",
                Assert.Throws<ArgumentException>(() => options.Validate(engine)).Message, StringComparison.Ordinal);
        engine.Run(engine.DisposeAsync());
    }

    [Theory]
    [InlineData(10_000)]
    [InlineData(10_001)]
    public void A_server_has_up_to_10_000_names(int count)
    {
        TlsOptions one = new() { Certificate = TlsCertificate.From(TestCertificates.Make("all", "*.chat.test")) };
        ServerOptions options = new()
        {
            Address = "tcp://127.0.0.1:0",
            Tls = new TlsOptions
            {
                Certificate = one.Certificate,
                Names = Enumerable.Range(0, count).ToDictionary(static i => $"n{i}.chat.test", _ => one)
            }
        };
        Assert.Equal(count > 10_000 ? ["Tls.Names has 10001 entries, allowed 0 to 10,000"] : [],
            options.FindMistakes());
    }

    [Theory]
    [InlineData(TlsHello.MostBytes, true)]
    [InlineData(TlsHello.MostBytes + 1, false)]
    public void A_ClientHello_of_up_to_64_KiB_is_waited_for(int whole, bool isAwaited)
    {
        int body = whole - 4;
        byte[] begin = [0x16, 3, 1, 0, 4, 1, (byte)(body >> 16), (byte)(body >> 8), (byte)body];
        TlsHello.Outcome outcome = TlsHello.Read(begin, out _);
        Assert.Equal(isAwaited ? TlsHello.Outcome.NeedsMore : TlsHello.Outcome.Found, outcome);
    }

    [Theory]
    [InlineData(64, true)]
    [InlineData(65, false)]
    public void A_header_and_a_delimiter_have_up_to_64_bytes(int count, bool isAllowed)
    {
        Action[] makers =
        [
            () => FrameFormat.LengthPrefix(4, headerBytes: count),
            () => FrameFormat.Delimited(Enumerable.Repeat((byte)'x', count).ToArray())
        ];
        foreach (Action make in makers)
        {
            if (isAllowed) make();
            else Assert.Throws<ArgumentOutOfRangeException>(make);
        }
    }

    [Fact]
    public void A_loop_keeps_the_names_of_4_096_Unix_senders_and_begins_anew_past_that()
    {
        UnixNames names = new();
        UnixName[] first = [.. Enumerable.Range(0, 4096).Select(NameOf)];
        for (int i = 0; i < first.Length; i++) Assert.Same(first[i], NameOf(i));
        NameOf(4096);
        UnixName again = NameOf(0);
        Assert.NotSame(first[0], again);
        Assert.Equal(first[0], again); // a peer that was stored stays valid

        UnixName NameOf(int i) => names.Intern(Encoding.ASCII.GetBytes($"/run/{i}"));
    }

    [Theory]
    [InlineData(256 * 1024, 256 * 1024)]
    [InlineData(256 * 1024 + 1, 256 * 1024)]
    public void One_call_of_sendfile_sends_up_to_256_KiB(int length, int expected)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "sendfile of this form is a call of Linux.");
        string folder = Directory.CreateTempSubdirectory("whimbrel-").FullName;
        try
        {
            string path = Path.Combine(folder, "from");
            File.WriteAllBytes(path, new byte[length]);
            // A file takes all bytes of a call; the buffer of a socket might not.
            using SafeFileHandle to = File.OpenHandle(Path.Combine(folder, "to"), FileMode.Create, FileAccess.Write);
            OpenFile file = new(File.OpenHandle(path));
            Block block = new() { Kind = BlockKind.File, File = file, End = length };
            Assert.Equal(expected, FileTransfer.Send((int)to.DangerousGetHandle(), block));
            block.Start += expected;
            Assert.Equal(length - expected, FileTransfer.Send((int)to.DangerousGetHandle(), block));
            Assert.True(file.TryRelease());
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    [Theory]
    [InlineData(new[] { 32 * 1024 }, false)]
    [InlineData(new[] { (32 * 1024) + 1 }, true)]
    [InlineData(new[] { 900 * 1024, 1 }, false)] // counted as 64 KiB: 32 KiB and a half byte on average
    [InlineData(new[] { 900 * 1024, 2 }, true)]
    public void A_group_is_congested_above_32_KiB_pending_on_average(int[] pending, bool isCongested)
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        MemoryEndPoint here = new("here");
        List<Recorder> sessions = [];
        Server server = new(new ServerOptions { Engine = engine, EndPoint = here }, () =>
        {
            Recorder session = new();
            sessions.Add(session);
            return session;
        });
        engine.Run(server.StartAsync());
        foreach (int _ in pending) engine.Connect(here);
        engine.RunUntil(() => sessions.Count == pending.Length && sessions.TrueForAll(static s => s.Calls.Count == 2));
        SessionGroup group = new();
        // The peers read nothing: after this nothing more leaves.
        engine.OnLoop(() => sessions.ForEach(static s => s.Send(new byte[64 * 1024])));
        engine.OnLoop(() =>
        {
            for (int i = 0; i < pending.Length; i++)
            {
                group.Join(sessions[i]);
                Assert.Equal(0, sessions[i].BytesPending);
                Assert.Equal(SendResult.Queued, sessions[i].Send(new byte[pending[i]]));
                Assert.Equal(pending[i], sessions[i].BytesPending);
            }

            group.Broadcast("x"u8);
            Assert.Equal(isCongested, group.IsCongested);
        });
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public async Task A_callback_that_does_not_end_is_reported_after_a_second_while_it_lasts()
    {
        using ManualResetEventSlim gate = new();
        TaskCompletionSource<long> reported = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await using Engine engine = new(new EngineOptions
        {
            Loops = 1,
            OnDiagnosticEvent = e =>
            {
                if (e.Message.Contains("has not returned", StringComparison.Ordinal))
                    reported.TrySetResult(Environment.TickCount64);
            }
        });
        long began = long.MaxValue;
        engine.Post(() =>
        {
            Volatile.Write(ref began, Environment.TickCount64);
            gate.Wait();
        });
        try
        {
            long at = await reported.Task.WaitAsync(TimeSpan.FromSeconds(60), TestContext.Current.CancellationToken);
            Assert.InRange(at - Volatile.Read(ref began), 1000 - 50, long.MaxValue); // two clocks of some milliseconds
        }
        finally
        {
            gate.Set();
        }
    }

    [Fact]
    public void The_caller_of_a_stop_waits_50_ms_for_a_thread_of_the_pool()
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        int runs = 0;
        IThreadPoolWorkItem late = new SureWork(engine, _ => runs++, null);
        engine.RunFor(TimeSpan.FromMilliseconds(49));
        Assert.Equal(0, runs);
        engine.RunFor(TimeSpan.FromMilliseconds(1));
        Assert.Equal(1, runs);
        late.Execute(); // a thread is free now
        Assert.Equal(1, runs);
        IThreadPoolWorkItem early = new SureWork(engine, _ => runs++, null);
        early.Execute();
        engine.RunFor(TimeSpan.FromMilliseconds(100));
        Assert.Equal(2, runs);
        engine.Run(engine.DisposeAsync());
    }
}
