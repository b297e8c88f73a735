#:project ../../src/Whimbrel.Datagrams/Whimbrel.Datagrams.csproj
// A statsd server: counters, gauges and timings over UDP, printed every ten seconds.
// Try it: printf 'logins:1|c' | nc -u -w0 127.0.0.1 8125
using System.Buffers.Text;
using System.Globalization;
using System.Net;
using System.Text;
using Whimbrel;

IPEndPoint endPoint = IPEndPoint.Parse(args.ElementAtOrDefault(0) ?? "127.0.0.1:8125");
TimeSpan every = TimeSpan.FromSeconds(double.Parse(args.ElementAtOrDefault(1) ?? "10", CultureInfo.InvariantCulture));
await using DatagramSocket socket = new(new DatagramOptions { EndPoint = endPoint }, () => new Statistics(every));
await socket.StartAsync();
Console.WriteLine($"Listening at {socket.EndPoint}. Ctrl-C stops.");
await StopSignal.WaitAsync();

// One loop runs the handler, so its fields need no lock.
sealed class Statistics(TimeSpan every) : DatagramHandler
{
    private const int MostNames = 10_000; // of all that strangers may send
    private readonly Dictionary<string, double> _counters = [], _gauges = [];
    private readonly Dictionary<string, (int Count, double Sum, double Most)> _timings = [];
    private int _rejected;

    protected override void OnStarted() => StartTimer(every, every);

    protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer)
    {
        foreach (Range line in datagram.TrimEnd("\n"u8).Split((byte)'\n'))
            if (!TryAdd(datagram[line])) _rejected++;
    }

    protected override void OnTimer(LoopTimer timer)
    {
        foreach ((string name, double value) in _counters)
            Console.WriteLine($"{name} {value / every.TotalSeconds:0.##}/s");
        foreach ((string name, double value) in _gauges) Console.WriteLine($"{name} {value:0.##}");
        foreach ((string name, (int count, double sum, double most)) in _timings)
            Console.WriteLine($"{name} {count} times, mean {sum / count:0.##} ms, at most {most:0.##} ms");
        if (_rejected > 0) Console.WriteLine($"{_rejected} lines rejected");
        _counters.Clear();
        _timings.Clear();
        _rejected = 0;
    }

    // name:value|type, with |@rate after a counter that was sampled
    private bool TryAdd(ReadOnlySpan<byte> line)
    {
        int colon = line.IndexOf((byte)':'), bar = line.IndexOf((byte)'|');
        if (colon < 1 || bar < colon) return false;
        ReadOnlySpan<byte> number = line[(colon + 1)..bar], type = line[(bar + 1)..];
        if (!Utf8Parser.TryParse(number, out double value, out int taken) || taken != number.Length) return false;

        string name = Encoding.UTF8.GetString(line[..colon]);
        if (_counters.Count + _gauges.Count + _timings.Count >= MostNames) return false;
        if (type.StartsWith("ms"u8))
        {
            var (count, sum, most) = _timings.GetValueOrDefault(name);
            _timings[name] = (count + 1, sum + value, Math.Max(most, value));
        }
        else if (type.StartsWith("g"u8)) _gauges[name] = value;
        else if (type.StartsWith("c"u8)) _counters[name] = _counters.GetValueOrDefault(name) + value / RateOf(type);
        else return false;
        return true;
    }

    private static double RateOf(ReadOnlySpan<byte> type) => type.StartsWith("c|@"u8)
        && Utf8Parser.TryParse(type[3..], out double rate, out _) && rate is > 0 and <= 1 ? rate : 1;
}
