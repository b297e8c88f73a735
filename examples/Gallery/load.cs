#:project ../../src/Whimbrel/Whimbrel.csproj
// A load generator: connections to an echo server, each with one message on its way, and the times of the answers.
// Try it: dotnet run -c Release load.cs tcp://127.0.0.1:1111 100 10   (connections, seconds)
using System.Diagnostics;
using System.Globalization;
using Whimbrel;

string address = args.ElementAtOrDefault(0) ?? "tcp://127.0.0.1:1111";
int connections = int.Parse(args.ElementAtOrDefault(1) ?? "100");
double seconds = double.Parse(args.ElementAtOrDefault(2) ?? "10", CultureInfo.InvariantCulture);

Times times = new();
await using Connector connector = new(address);
try
{
    await Task.WhenAll(Enumerable.Range(0, connections)
        .Select(_ => connector.ConnectAsync(() => new Pinger(times)).AsTask()));
}
catch (NetworkException e)
{
    Console.Error.WriteLine(e.Message);
    return 1;
}

Stopwatch clock = Stopwatch.StartNew();
await Task.WhenAny(Task.Delay(TimeSpan.FromSeconds(seconds)), StopSignal.WaitAsync());
TimeSpan elapsed = clock.Elapsed;
Console.WriteLine($"{connector.SessionCount} of {connections} connections are open");
Console.WriteLine($"{times.Count / elapsed.TotalSeconds:0} answers a second");
Console.WriteLine($"p50 {times.Percentile(50)} us, p99 {times.Percentile(99)} us, p99.9 {times.Percentile(99.9)} us");
return connector.SessionCount == connections ? 0 : 1;

sealed class Pinger(Times times) : Session
{
    private readonly byte[] _message = new byte[32];
    private int _missing;
    private long _sent;

    protected override void OnConnected() => Ping();

    protected override void OnReceived(ReadOnlySpan<byte> data)
    {
        if ((_missing -= data.Length) > 0) return; // an answer may come in pieces
        times.Add(Stopwatch.GetElapsedTime(_sent));
        Ping();
    }

    private void Ping()
    {
        _missing = _message.Length;
        _sent = Stopwatch.GetTimestamp();
        Send(_message);
    }
}

// Microseconds up to a second. Sessions on several loops add at the same time.
sealed class Times
{
    private readonly long[] _counts = new long[1_000_001];

    public long Count => _counts.Sum();

    public void Add(TimeSpan time) =>
        Interlocked.Increment(ref _counts[Math.Min((long)time.TotalMicroseconds, _counts.Length - 1)]);

    public int Percentile(double percent)
    {
        long left = (long)(Count * percent / 100);
        int at = 0;
        while (at < _counts.Length - 1 && (left -= _counts[at]) > 0) at++;
        return at;
    }
}
