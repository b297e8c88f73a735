#:project ../../src/Whimbrel.Cluster/Whimbrel.Cluster.csproj
// A feed that loses nothing: a client that was away says the last position it has, and gets what it missed.
// Try it: nc 127.0.0.1 1111, type "follow" and "say hello"; leave, come back, and type "follow POSITION"
using System.Text;
using Whimbrel;
using Whimbrel.Clusters;

RecoverableGroup? feed = null;
ServerOptions options = new()
{
    Address = args.FirstOrDefault() ?? "tcp://127.0.0.1:1111",
    Accept = new() { AtStart = false }, // until there is a feed
};
await using Server server = new(options, () => new Reader(feed!));
await server.StartAsync();
await using Cluster cluster = await Cluster.JoinAsync(server, new ClusterOptions { Application = "feed" });
feed = cluster.RecoverableGroup("news", new RecoverableOptions
{
    History = new HistoryLimits { MaxCount = 500, MaxAge = TimeSpan.FromMinutes(10) },
    Deliver = (members, position, payload) => members.Broadcast($"{position} {Encoding.UTF8.GetString(payload)}\n"),
    OnBroken = (members, position, why) => members.Broadcast($"{position} messages are missing: {why}\n"),
});
await server.StartAcceptingAsync();
Console.WriteLine($"Listening at {server.EndPoint}. Ctrl-C stops.");
await StopSignal.WaitAsync();

sealed class Reader(RecoverableGroup feed) : FramedSession(FrameFormat.Line(limitBytes: 1024))
{
    protected override void OnFrame(in Frame line)
    {
        string text = Encoding.UTF8.GetString(line.Message).Trim();
        if (text == "follow") Post(JoinAsync);
        else if (text.StartsWith("follow ", StringComparison.Ordinal)) Resume(text["follow ".Length..]);
        else if (text.StartsWith("say ", StringComparison.Ordinal)) Say(text["say ".Length..]);
        else Send("follow, follow POSITION, or say TEXT\n");
    }

    private void Resume(string text)
    {
        if (GroupPosition.TryParse(text, out GroupPosition position)) Post(() => ResumeAsync(position));
        else Send("This is no position.\n");
    }

    private void Say(string text)
    {
        if (feed.Broadcast(text) != SendResult.Queued) Send("Not published: try again.\n");
    }

    private async Task JoinAsync()
    {
        ResumeResult result = await feed.JoinAsync(this);
        Send(result.IsRecovered ? $"{result.Position} later messages follow\n" : $"Not followed: {result.Outcome}\n");
    }

    // Trimmed or Replaced: the history no longer has what was missed. Unavailable: to be tried again.
    private async Task ResumeAsync(GroupPosition position)
    {
        ResumeResult result = await feed.ResumeAsync(this, position);
        if (!result.IsRecovered) Send($"Not resumed: {result.Outcome}\n");
    }
}
