using System.Globalization;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;

namespace Whimbrel.Tool.Tests;

// A guest of one node's chat that sends numbers, and records the numbers and the losses it receives.
internal sealed partial class ClusterGuest : IDisposable
{
    // The chat accepts twenty lines a second per guest, with a burst of forty: no more may be pending for a stopped
    // node (stopped for ten seconds in deep runs).
    private static readonly TimeSpan s_pace =
        TimeSpan.FromMilliseconds(Depth.IsDeep ? 300 : 70);

    private readonly Lock _gate = new();
    private readonly Socket _client;
    private readonly NetworkStream _stream;
    private readonly List<string> _lines = [];
    private readonly CancellationTokenSource _silence = new();
    private TaskCompletionSource _changed = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private Task _talking = Task.CompletedTask;
    private readonly StreamWriter _writer;
    private int _said;
    private bool _hasEnded;

    private ClusterGuest(string name, string node, Socket connected)
    {
        Name = name;
        Node = node;
        _client = connected;
        _stream = new NetworkStream(connected);
        _writer = new StreamWriter(_stream, new UTF8Encoding(false)) { AutoFlush = true, NewLine = "\n" };
    }

    internal string Name { get; }

    internal string Node { get; }

    internal bool IsConnected
    {
        get
        {
            lock (_gate) return !_hasEnded;
        }
    }

    internal static async Task<ClusterGuest> EnterAsync(RunningTool tool, string node, string name)
    {
        Socket socket = new(tool.EndPoint.AddressFamily, SocketType.Stream, ProtocolType.Unspecified);
        await socket.ConnectAsync(tool.EndPoint);
        ClusterGuest guest = new(name, node, socket);
        _ = guest.ReadAsync();
        await guest.SayAsync($"/name {name}");
        await guest.UntilAsync(l => l == $"* you are {name} now.", "the name");
        return guest;
    }

    internal Task SayAsync(string text) => _writer.WriteLineAsync(text);

    internal void StartTalking() => _talking = TalkAsync();

    // Stops sending, and waits until each other guest has received all its lines since the first one it received, or a
    // notice of how many are lost.
    internal async Task FallSilentAsync(IEnumerable<ClusterGuest> guests)
    {
        await _silence.CancelAsync();
        await _talking;
        foreach (ClusterGuest guest in guests)
        {
            if (guest != this)
                await guest.UntilAllAsync(lines => HeardOf(lines, this) is [var first, ..] heard
                    && heard.Length + Told(lines, this) >= _said - first + 1, $"all of {Name} at {guest.Name}");
        }
    }

    // Waits for a line that is sent from now on.
    internal Task HearsFreshAsync(ClusterGuest other)
    {
        int said = Volatile.Read(ref other._said);
        return UntilAllAsync(lines => HeardOf(lines, other) is [.., var last] && last > said,
            $"{Name} receives {other.Name} after {said}");
    }

    internal Task UntilAsync(Func<string, bool> isIt, string what) => UntilAllAsync(lines => lines.Any(isIt), what);

    // Each line once and in order. FallSilentAsync checks that no line is lost without a diagnostic event.
    internal void Check(IEnumerable<ClusterGuest> others)
    {
        foreach (ClusterGuest other in others)
        {
            if (other == this) continue;
            lock (_gate)
            {
                int[] heard = HeardOf(_lines, other);
                TestContext.Current.TestOutputHelper!.WriteLine(
                    $"{Name} received {heard.Length} of {other.Name}, and {Told(_lines, other)} were reported lost");
                Assert.True(heard.SequenceEqual(heard.Distinct().Order()),
                    $"{Name} received {other.Name} out of order: {string.Join(' ', heard)}");
            }
        }
    }

    public void Dispose()
    {
        _client.Dispose(); // ends its reader and its sender
        _silence.Dispose();
    }

    private static int[] HeardOf(IEnumerable<string> lines, ClusterGuest other) =>
        [.. lines.Select(l => Said().Match(l)).Where(m => m.Success && m.Groups["who"].Value == other.Name)
            .Select(static m => int.Parse(m.Groups["number"].ValueSpan, CultureInfo.InvariantCulture))];

    private static int Told(IEnumerable<string> lines, ClusterGuest other) =>
        lines.Select(static l => Lost().Match(l)).Where(m => m.Success && m.Groups["node"].Value == other.Node)
            .Sum(static m => int.Parse(m.Groups["count"].ValueSpan, CultureInfo.InvariantCulture));

    private async Task TalkAsync()
    {
        try
        {
            while (true)
            {
                await SayAsync($"{_said + 1}");
                Interlocked.Increment(ref _said);
                await Task.Delay(s_pace, _silence.Token); // tidy: waits because it sends at a fixed rate
            }
        }
        catch (Exception e) when (e is OperationCanceledException or IOException or ObjectDisposedException)
        {
            // Silent or disconnected: the lines it has sent stay counted.
        }
    }

    private async Task ReadAsync()
    {
        try
        {
            using StreamReader reader = new(_stream, Encoding.UTF8);
            while (await reader.ReadLineAsync() is { } line) Report(() => _lines.Add(line));
        }
        catch (Exception e) when (e is IOException or ObjectDisposedException)
        {
            // The connection has ended.
        }

        Report(() => _hasEnded = true);
    }

    private void Report(Action change)
    {
        lock (_gate)
        {
            change();
            _changed.SetResult();
            _changed = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        }
    }

    private Task<bool> UntilAllAsync(Func<List<string>, bool> isSo, string what) => Deadline.Within(
        async cancellation =>
        {
            while (true)
            {
                Task changed;
                lock (_gate)
                {
                    if (isSo(_lines)) return true;
                    changed = _changed.Task;
                }

                await changed.WaitAsync(cancellation);
            }
        },
        () =>
        {
            lock (_gate) return $"{what}; the last lines:\n{string.Join('\n', _lines.TakeLast(30))}";
        });

    [GeneratedRegex(@"^\[\w+\] (?<who>\w+): (?<number>\d+)$")]
    private static partial Regex Said();

    [GeneratedRegex(@"^\[\w+\] \* (?<count>\d+) lines? of (?<node>\w+) (is|are) lost$")]
    private static partial Regex Lost();
}
