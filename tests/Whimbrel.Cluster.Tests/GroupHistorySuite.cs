using System.Diagnostics;
using System.Globalization;
using System.Text;
using Whimbrel.Clusters;

namespace Whimbrel.Tests;

// The contract of IGroupHistory. One class for each bus that implements it.
public abstract class GroupHistorySuite : IAsyncLifetime
{
    private static readonly HistoryLimits s_limits = new() { MaxCount = 100 };

    private readonly Engine _engine = new(new EngineOptions { Loops = 1 });
    private readonly List<BusNode> _nodes = [];
    private TestBroker? _broker;

    private protected TestBroker Broker => _broker!;

    // Size of a small message where bytes are counted.
    protected virtual int Unit => 900;

    protected abstract ValueTask<TestBroker> StartBrokerAsync();

    public async ValueTask InitializeAsync()
    {
        await _engine.StartAsync();
        _broker = await StartBrokerAsync();
        for (int i = 0; i < 2; i++)
        {
            _nodes.Add(new BusNode(_broker.Connect(), _engine.GetLoop(0)));
            await _nodes[i].StartAsync();
        }
    }

    public async ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        foreach (BusNode node in _nodes) await node.Bus.DisposeAsync();
        if (_broker is not null) await _broker.DisposeAsync();
        await _engine.DisposeAsync();
    }

    // Null: not accepted.
    private async Task<T?> AskAsync<T>(Func<Action<T>, bool> ask)
    {
        TaskCompletionSource<T> answer = new(TaskCreationOptions.RunContinuationsAsynchronously);
        bool isTaken = await _engine.GetLoop(0).PostAsync(() => ask(a =>
        {
            Assert.True(_engine.GetLoop(0).IsCurrent);
            answer.SetResult(a);
        }));
        return isTaken ? await answer.Task.WaitAsync(BusNode.Patience) : default;
    }

    protected Task<bool> AppendAsync(int node, string subject, params string[] texts) =>
        AppendAsync(node, subject, s_limits, texts);

    protected Task<bool> AppendAsync(int node, string subject, HistoryLimits limits, params string[] texts) =>
        AskAsync<bool>(done => ((IGroupHistory)_nodes[node].Bus).Append(subject, limits,
            [.. texts.Select(static t => (ReadOnlyMemory<byte>)Encoding.UTF8.GetBytes(t))], done));

    protected Task<HistoryPage?> ReadAsync(int node, string subject, ulong after, int most = 1000,
        HistoryLimits? limits = null) =>
        AskAsync<HistoryPage?>(done => ((IGroupHistory)_nodes[node].Bus).Read(subject, limits ?? s_limits, after,
            most, done));

    private protected static string Shown(HistoryPage? page) => TroubleTests.Shown(page);

    [Fact]
    public async Task A_stream_begins_with_its_first_reader_and_counts_from_1_for_all_nodes()
    {
        HistoryPage? empty = await ReadAsync(0, "t.one", 0);
        Assert.Equal("1 0: ", Shown(empty));
        Assert.NotEqual(0ul, empty!.Epoch);
        Assert.True(await AppendAsync(0, "t.one", "a", "b"));
        Assert.True(await AppendAsync(1, "t.one", "c"));
        HistoryPage? page = await ReadAsync(1, "t.one", 0);
        Assert.Equal("1 3: 1=a 2=b 3=c", Shown(page));
        Assert.Equal(empty.Epoch, page!.Epoch);
        Assert.Equal("1 3: 2=b", Shown(await ReadAsync(0, "t.one", 1, 1)));
        Assert.Equal("1 3: ", Shown(await ReadAsync(0, "t.one", 3)));
        Assert.Equal("1 3: ", Shown(await ReadAsync(0, "t.one", ulong.MaxValue)));
        HistoryPage? other = await ReadAsync(0, "t.two", 0);
        Assert.Equal("1 0: ", Shown(other));
        Assert.NotEqual(empty.Epoch, other!.Epoch);
    }

    [Fact]
    public async Task Beyond_the_limit_the_oldest_is_removed_and_offsets_continue()
    {
        for (int i = 0; i < 5; i++)
            Assert.True(await AppendAsync(i % 2, "t.one",
                [.. Enumerable.Range((i * 50) + 1, 50).Select(static n => $"{n}")]));
        HistoryPage? page = await ReadAsync(0, "t.one", 10);
        Assert.Equal((151ul, 250ul, 100), (page!.First, page.Last, page.Entries.Count));
        Assert.All(page.Entries, static e => Assert.Equal($"{e.Offset}", Encoding.UTF8.GetString(e.Envelope.Span)));
    }

    [Fact]
    public async Task Nodes_that_append_at_once_share_one_order_in_which_each_batch_keeps_its_own()
    {
        bool[] kept = await Task.WhenAll(Enumerable.Range(0, 40)
            .Select(i => AppendAsync(i % 2, "t.one", $"{i}a", $"{i}b")));
        Assert.DoesNotContain(false, kept);
        HistoryPage? page = await ReadAsync(0, "t.one", 0);
        string[] all = [.. page!.Entries.Select(static e => Encoding.UTF8.GetString(e.Envelope.Span))];
        Assert.Equal(80, all.Length);
        for (int i = 0; i < 40; i++) Assert.InRange(Array.IndexOf(all, $"{i}a"), 0, Array.IndexOf(all, $"{i}b") - 1);
    }

    [Fact]
    public async Task Bytes_and_age_trim_too_and_the_newest_is_kept_however_large()
    {
        HistoryLimits limits = new() { MaxBytes = Unit * 10 / 3 };
        for (int i = 1; i <= 4; i++)
            Assert.True(await AppendAsync(0, "t.one", limits, new string((char)('0' + i), Unit)));
        HistoryPage? page = await ReadAsync(1, "t.one", 0, limits: limits);
        Assert.Equal((2ul, 4ul), (page!.First, page.Last));

        limits = new HistoryLimits { MaxBytes = 3000, MaxAge = TimeSpan.FromSeconds(2) };
        Assert.True(await AppendAsync(0, "t.two", limits, "1"));
        Assert.True(await AppendAsync(0, "t.two", limits, new string('2', 5000)));
        page = await ReadAsync(1, "t.two", 1, limits: limits);
        Assert.Equal((2ul, 5000), (page!.Last, page.Entries.Single().Envelope.Length));
        long start = Stopwatch.GetTimestamp();
        HistoryPage? later;
        while ((later = await ReadAsync(1, "t.two", 0, limits: limits))!.Entries.Count > 0)
            Assert.True(Stopwatch.GetElapsedTime(start) < BusNode.Patience, "it ages");
        Assert.Equal((page.Epoch, 3ul, 2ul), (later.Epoch, later.First, later.Last));
        Assert.True(await AppendAsync(0, "t.two", limits, "3"));
        Assert.Equal("3 3: 3=3", Shown(await ReadAsync(0, "t.two", 0, limits: limits)));
    }

    [Fact]
    public async Task A_stream_larger_than_a_page_is_read_from_where_the_last_page_ended()
    {
        HistoryLimits limits = new() { MaxBytes = 64 << 20 };
        string[] texts = [.. Enumerable.Range(1, 12)
            .Select(static n => new string((char)('a' + n), n == 7 ? 3_000_000 : 100_000))];
        foreach (string[] batch in texts.Chunk(5)) Assert.True(await AppendAsync(0, "t.one", limits, batch));
        List<string> read = [];
        while (read.Count < texts.Length)
        {
            HistoryPage? page = await ReadAsync(1, "t.one", (ulong)read.Count, 256, limits);
            Assert.Equal((1ul, 12ul), (page!.First, page.Last));
            Assert.NotEmpty(page.Entries);
            Assert.Equal((ulong)read.Count + 1, page.Entries[0].Offset);
            read.AddRange(page.Entries.Select(static e => Encoding.UTF8.GetString(e.Envelope.Span)));
        }

        Assert.Equal(texts, read);
    }

    [Fact]
    public async Task Groups_of_two_nodes_have_one_order_and_a_member_that_was_away_resumes_on_the_other()
    {
        await using RecoverableNode a = await RecoverableNode.StartAsync(_broker!.Connect(), "a"),
            b = await RecoverableNode.StartAsync(_broker.Connect(), "b");
        (RecoverableNode.Guest atA, GroupPosition start) = await a.JoinAsync();
        (RecoverableNode.Guest atB, _) = await b.JoinAsync();
        for (int i = 0; i < 300; i++)
        {
            a.Say($"a{i}");
            b.Say($"b{i}");
            if (i == 100) await atA.UntilAsync(50);
        }

        await atA.UntilAsync(600);
        await atB.UntilAsync(600);
        Assert.Equal(atA.Heard, atB.Heard);
        Assert.Equal(Enumerable.Range(1, 600),
            atA.Heard.Select(static h => int.Parse(h.Split(':')[0], CultureInfo.InvariantCulture)));
        foreach (char of in "ab")
            Assert.Equal(Enumerable.Range(0, 300).Select(i => $"{of}{i}"),
                atA.Heard.Select(static h => h.Split(':')[1]).Where(h => h[0] == of));
        (RecoverableNode.Guest again, ResumeResult result) = await b.ResumeAsync(start with { Offset = 250 });
        Assert.Equal(new ResumeResult(ResumeOutcome.Recovered, 350, start with { Offset = 600 }), result);
        a.Say("last");
        await again.UntilAsync(351);
        await atA.UntilAsync(601);
        Assert.Equal(atA.Heard.Skip(250), again.Heard);
        (_, ResumeResult wrong) = await a.ResumeAsync(start with { Epoch = start.Epoch ^ 1 });
        Assert.Equal(ResumeOutcome.Replaced, wrong.Outcome);
    }

    [Fact]
    public async Task Without_the_broker_nothing_is_accepted_and_later_a_stream_continues_or_has_another_epoch()
    {
        Assert.True(await AppendAsync(0, "t.one", "a"));
        HistoryPage? before = await ReadAsync(0, "t.one", 0);
        await _broker!.LoseAsync();
        foreach (BusNode node in _nodes) await node.UntilStateAsync(static s => s.Count >= 2);
        Assert.False(await AppendAsync(0, "t.one", "away"));
        Assert.Null(await ReadAsync(1, "t.one", 0));
        await _broker.RestoreAsync();
        foreach (BusNode node in _nodes) await node.UntilStateAsync(static s => s is [_, _, .., "connected"]);
        Assert.True(await AppendAsync(0, "t.one", "b"));
        HistoryPage? after = await ReadAsync(1, "t.one", 0);
        Assert.Equal(after!.Epoch == before!.Epoch ? "1 2: 1=a 2=b" : "1 1: 1=b", Shown(after));
    }
}
