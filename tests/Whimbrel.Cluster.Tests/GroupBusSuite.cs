using Whimbrel.Clusters;

namespace Whimbrel.Tests;

/// <summary>The contract of <see cref="IGroupBus"/>, by number. One class for each bus.</summary>
public abstract class GroupBusSuite : IAsyncLifetime
{
    private readonly Engine _engine = new(new EngineOptions { Loops = 2 });
    private readonly List<BusNode> _nodes = [];
    private TestBroker? _broker;

    private TestBroker Broker => _broker!;

    protected abstract ValueTask<TestBroker> StartBrokerAsync();

    public async ValueTask InitializeAsync()
    {
        await _engine.StartAsync();
        _broker = await StartBrokerAsync();
    }

    public async ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        foreach (BusNode node in _nodes) await node.Bus.DisposeAsync();
        if (_broker is not null) await _broker.DisposeAsync();
        await _engine.DisposeAsync();
    }

    private async Task<BusNode> NodeAsync(params string[] subjects)
    {
        BusNode node = new(Broker.Connect(), _engine.GetLoop(_nodes.Count % 2));
        _nodes.Add(node);
        await node.StartAsync();
        await node.SubscribeAsync(subjects);
        return node;
    }

    private static string[] Numbered(string of, int count) => [.. Enumerable.Range(0, count).Select(i => $"{of}{i}")];

    [Fact] // 1, 2
    public async Task Published_messages_reach_all_subscribers_in_order_per_publisher()
    {
        BusNode a = await NodeAsync("t.one"), b = await NodeAsync("t.one"), other = await NodeAsync("t.two");
        string[] ofA = Numbered("a", 5_000), ofB = Numbered("b", 5_000);
        await Task.WhenAll(a.PublishAsync("t.one", ofA), b.PublishAsync("t.one", ofB));
        foreach (BusNode node in new[] { a, b })
        {
            await node.UntilCountAsync(10_000);
            Assert.Equal(ofA, node.Heard.Where(static h => h[0] == 'a'));
            Assert.Equal(ofB, node.Heard.Where(static h => h[0] == 'b'));
            node.Check();
        }

        await other.PublishAsync("t.two", ["last"]);
        await other.UntilHeardAsync("last");
        Assert.Equal(["last"], other.Heard);
    }

    [Fact] // 2: subjects share one order
    public async Task Messages_of_one_node_on_several_subjects_keep_their_order_too()
    {
        BusNode a = await NodeAsync(), b = await NodeAsync("t.0", "t.1", "t.2");
        for (int i = 0; i < 100; i++)
            Assert.Equal(3,
                await a.OfferAsync(("t.0", "x"u8.ToArray()), ("t.1", "y"u8.ToArray()), ("t.2", "z"u8.ToArray())));
        await b.UntilCountAsync(300);
        Assert.Equal(string.Concat(Enumerable.Repeat("xyz", 100)), string.Concat(b.Heard));
    }

    [Fact] // 4
    public async Task A_published_message_returns_to_its_node_once_and_after_its_subscription()
    {
        BusNode a = await NodeAsync("t.one");
        await a.SubscribeAsync("t.one", "t.two");
        await a.PublishAsync("t.one", ["x"]);
        await a.PublishAsync("t.two", ["last"]);
        await a.UntilHeardAsync("last");
        Assert.Equal(["x", "last"], a.Heard);
    }

    [Fact] // 4
    public async Task After_an_unsubscribe_nothing_is_delivered_and_after_another_subscribe_it_is()
    {
        BusNode a = await NodeAsync("t.one", "t.two"), b = await NodeAsync("t.one");
        await a.UnsubscribeAsync("t.one");
        await a.UnsubscribeAsync("t.one");
        await a.UnsubscribeAsync("t.never");
        await a.PublishAsync("t.one", ["for b"]);
        await a.PublishAsync("t.two", ["last"]);
        await a.UntilHeardAsync("last");
        await b.UntilHeardAsync("for b");
        Assert.Equal(["last"], a.Heard);
        await a.SubscribeAsync("t.one");
        await b.PublishAsync("t.one", ["again"]);
        await a.UntilHeardAsync("again");
    }

    [Fact]
    public async Task Names_of_any_characters_are_kept_apart()
    {
        string[] names = ["a", "A", "a.b", "a b", "*", ">", "a.*", "=", "=2A", "\r\n", "\0", "grüße", "\U0001F426",
            "group.a", "$SYS", "__keyspace", "[a-z]", "?", new string('é', 128)];
        string[] subjects = [.. names.Select(static n => Subjects.OfGroup("app", n))];
        Assert.Equal(names.Length, subjects.Distinct().Count());
        BusNode a = await NodeAsync(subjects), b = await NodeAsync();
        for (int i = 0; i < names.Length; i++) await b.PublishAsync(subjects[i], [$"{i}"]);
        await a.UntilCountAsync(names.Length);
        Assert.Equal(Enumerable.Range(0, names.Length).Select(static i => $"{i}"), a.Heard);
        await a.UnsubscribeAsync(Subjects.OfGroup("app", "*"));
        await b.PublishAsync(Subjects.OfGroup("app", "*"), ["not"]);
        await b.PublishAsync(Subjects.OfGroup("app", "a"), ["last"]);
        await a.UntilHeardAsync("last");
        Assert.DoesNotContain("not", a.Heard);
    }

    [Fact]
    public async Task Envelopes_of_any_bytes_up_to_the_largest_arrive_unchanged()
    {
        BusNode a = await NodeAsync("t.one"), b = await NodeAsync();
        int most = Math.Min(b.Bus.MaxEnvelopeBytes, ClusterOptions.MostPayloadBytes + Envelope.MostOverheadBytes);
        string all = string.Concat(Enumerable.Range(0, 256).Select(static i => (char)i));
        string[] texts = ["", "\r\n", "+OK\r\nPING\r\n", all, string.Concat(Enumerable.Repeat(all, 300)),
            new string('x', most), "last"];
        foreach (string text in texts) await b.PublishAsync("t.one", [text]);
        await a.UntilHeardAsync("last");
        Assert.True(texts.SequenceEqual(a.Heard));
    }

    [Fact] // 1
    public async Task A_full_bus_accepts_the_first_messages_reports_space_later_and_loses_none()
    {
        BusNode a = await NodeAsync("t.one"), b = await NodeAsync();
        string body = new('x', 10_000);
        await b.PublishAsync("t.one", Enumerable.Range(0, 2_000).Select(i => $"{i} {body}"));
        await a.UntilCountAsync(2_000);
        Assert.Equal(Enumerable.Range(0, 2_000).Select(static i => $"{i}"),
            a.Heard.Select(static h => h.Split(' ')[0]));
    }

    [Fact] // 3
    public async Task Without_the_broker_nothing_is_accepted_and_after_a_reconnect_nothing_is_subscribed()
    {
        BusNode a = await NodeAsync("t.one", "t.two"), b = await NodeAsync("t.one");
        await Broker.LoseAsync();
        foreach (BusNode node in _nodes)
        {
            await node.UntilStateAsync(static s => s.Count >= 2);
            Assert.StartsWith("lost: ", node.States[1], StringComparison.Ordinal);
        }

        Assert.Equal(0, await a.OfferAsync("t.one", "away"));
        await a.UnsubscribeAsync("t.two");
        await Broker.RestoreAsync();
        foreach (BusNode node in _nodes) await node.UntilStateAsync(static s => s is [_, _, .., "connected"]);
        Assert.All(_nodes, static n => Assert.Equal(2, n.States.Count(static s => s == "connected")));
        await a.SubscribeAsync("t.two");
        await b.PublishAsync("t.one", ["not subscribed"]);
        await b.PublishAsync("t.two", ["last"]);
        await a.UntilHeardAsync("last");
        Assert.Equal(["last"], a.Heard);
        await a.SubscribeAsync("t.one");
        await b.PublishAsync("t.one", ["again"]);
        await a.UntilHeardAsync("again");
        Assert.Equal(["last", "again"], a.Heard);
        Assert.All(_nodes, static n => n.Check());
    }

    [Fact]
    public async Task A_disposed_bus_reports_nothing_more()
    {
        BusNode a = await NodeAsync("t.one"), b = await NodeAsync("t.one");
        await a.Bus.DisposeAsync();
        await a.Bus.DisposeAsync();
        (int heard, int states) = (a.Heard.Count, a.States.Count);
        await b.PublishAsync("t.one", ["x"]);
        await b.UntilHeardAsync("x");
        Assert.Equal((heard, states), (a.Heard.Count, a.States.Count));
        Assert.Equal("connected", a.States[^1]);
    }

    [Fact]
    public void The_description_of_a_bus_names_it_for_diagnostic_events()
    {
        IGroupBus bus = Broker.Connect();
        Assert.NotEmpty(bus.Description);
        Assert.DoesNotContain("secret", bus.Description, StringComparison.OrdinalIgnoreCase);
    }
}
