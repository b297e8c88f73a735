using System.Diagnostics;
using System.Text;
using Whimbrel.Clusters;
using Whimbrel.Engines;

namespace Whimbrel.Tests;

// The node's side of a bus: it publishes and subscribes on its loop, records what the bus delivers, and detects calls
// on other threads.
public sealed class BusNode(IGroupBus bus, Loop loop) : IGroupBusListener
{
    public static readonly TimeSpan Patience = TimeSpan.FromSeconds(60);

    private const string Probe = "probe ";

    private readonly Lock _gate = new();
    private readonly List<string> _heard = [];
    private readonly List<string> _states = [];
    private readonly List<string> _mistakes = [];
    private TaskCompletionSource _changed = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _probes;
    private int _room;

    public IGroupBus Bus { get; } = bus;

    public IReadOnlyList<string> Heard => Read(_heard);

    // "connected", "lost: ..." in order of occurrence.
    public IReadOnlyList<string> States => Read(_states);

    public async Task StartAsync()
    {
        await Bus.StartAsync(loop, this, TestContext.Current.CancellationToken);
        await UntilAsync(() => _states is ["connected"], "connected");
    }

    // Completes when the broker has registered the subscriptions: the bus has delivered a message that was published
    // after them.
    public async Task SubscribeAsync(params string[] subjects)
    {
        foreach (string subject in subjects)
        {
            string probe = Probe + Guid.NewGuid();
            int before = _probes;
            await loop.PostAsync(() => Bus.Subscribe(subject));
            await PublishAsync(subject, [probe]); // waits for space if much was published before
            await UntilAsync(() => _probes > before, $"received on {subject}");
        }
    }

    public async Task UnsubscribeAsync(string subject) => await loop.PostAsync(() => Bus.Unsubscribe(subject));

    public async Task<int> OfferAsync(params (string Subject, byte[] Envelope)[] messages) =>
        await loop.PostAsync(
            () => Bus.Publish([.. messages.Select(static m => new BusMessage(m.Subject, m.Envelope))]));

    public Task<int> OfferAsync(string subject, string text) => OfferAsync((subject, Encoding.Latin1.GetBytes(text)));

    // Publishes all of them as a node does: what the bus does not accept is offered again when it has space.
    public async Task PublishAsync(string subject, IEnumerable<string> texts, int atOnce = 100)
    {
        foreach ((string, byte[])[] chunk in texts.Select(t => (subject, Encoding.Latin1.GetBytes(t))).Chunk(atOnce))
        {
            for (int taken = 0; taken < chunk.Length;)
            {
                int room = _room;
                int now = await OfferAsync(chunk[taken..]);
                taken += now;
                if (now == 0) await UntilAsync(() => _room > room, "room");
            }
        }
    }

    public Task UntilHeardAsync(params string[] texts) =>
        UntilAsync(() => texts.All(_heard.Contains), string.Join(", ", texts.Select(Short)));

    public Task UntilStateAsync(Func<IReadOnlyList<string>, bool> isSo) => UntilAsync(() => isSo(_states), "the state");

    public Task UntilCountAsync(int count) => UntilAsync(() => _heard.Count >= count, $"{count} envelopes");

    public void Check()
    {
        lock (_gate) Assert.Empty(_mistakes);
    }

    void IGroupBusListener.OnConnected() => Report(() => _states.Add("connected"));

    void IGroupBusListener.OnLost(string reason) => Report(() => _states.Add($"lost: {reason}"));

    void IGroupBusListener.OnRoom() => Report(() => _room++);

    void IGroupBusListener.OnEnvelope(ReadOnlySpan<byte> envelope)
    {
        string text = Encoding.Latin1.GetString(envelope);
        Report(() =>
        {
            if (text.StartsWith(Probe, StringComparison.Ordinal)) _probes++;
            else _heard.Add(text);
        });
    }

    private static string Short(string text) => text.Length < 50 ? text : $"{text.Length} bytes";

    private string[] Read(List<string> list)
    {
        lock (_gate) return [.. list];
    }

    private void Report(Action change)
    {
        lock (_gate)
        {
            if (!loop.IsCurrent) _mistakes.Add($"called on another thread: {Environment.StackTrace}");
            change();
            _changed.SetResult();
            _changed = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        }
    }

    private async Task UntilAsync(Func<bool> isSo, string what)
    {
        long start = Stopwatch.GetTimestamp();
        try
        {
            while (true)
            {
                Task changed;
                lock (_gate)
                {
                    if (isSo()) return;
                    changed = _changed.Task;
                }

                await changed.WaitAsync(Patience - Stopwatch.GetElapsedTime(start));
            }
        }
        catch (Exception e) when (e is TimeoutException or ArgumentOutOfRangeException)
        {
            // At the deadline: the message shows what is missing.
        }

        lock (_gate)
            Assert.Fail($"not {what} within {Patience}. States: {string.Join("; ", _states)}. {_heard.Count} "
                + $"envelopes, the last: {Short(_heard.LastOrDefault(""))}");
    }
}
