using System.Collections.Concurrent;
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Tool.Tests;

// Connections at a fixed rate, whatever the answers take (an open loop): each sends four bytes, reads them back, and is
// closed by a reset, so that no port of the client stays in TIME_WAIT.
internal sealed class Load
{
    private const int MostOpen = 4000;
    private static readonly byte[] _ping = "ping"u8.ToArray();
    private int _served;

    public ConcurrentDictionary<string, int> Failures { get; } = new();

    public int Served => _served;

    public double Seconds { get; private set; }

    public override string ToString() => string.Create(System.Globalization.CultureInfo.InvariantCulture,
        $"{Served} connections in {Seconds:0.0} s, {Failures.Values.Sum()} failures: {string.Join("; ", Failures)}");

    public static async Task<Load> RunAsync(EndPoint to, int perSecond, CancellationToken end)
    {
        Load load = new();
        long start = Stopwatch.GetTimestamp();
        using SemaphoreSlim open = new(MostOpen);
        using PeriodicTimer tick = new(TimeSpan.FromMilliseconds(5));
        List<Task> running = [];
        for (int begun = 0; !end.IsCancellationRequested; await tick.WaitForNextTickAsync(CancellationToken.None))
        {
            int due = (int)(Stopwatch.GetElapsedTime(start).TotalSeconds * perSecond);
            for (; begun < due && open.Wait(0, CancellationToken.None); begun++)
                running.Add(load.OneAsync(to, open));
            if (running.Count > MostOpen) running.RemoveAll(static t => t.IsCompleted);
        }

        load.Seconds = Stopwatch.GetElapsedTime(start).TotalSeconds;
        await Task.WhenAll(running);
        return load;
    }

    private async Task OneAsync(EndPoint to, SemaphoreSlim open)
    {
        string step = "connect";
        try
        {
            using CancellationTokenSource limit = new(TimeSpan.FromSeconds(30));
            using Socket socket = new(to.AddressFamily, SocketType.Stream, ProtocolType.Unspecified);
            await socket.ConnectAsync(to, limit.Token);
            if (to is IPEndPoint) socket.LingerState = new LingerOption(true, 0);
            step = "send";
            await socket.SendAsync(_ping, limit.Token);
            step = "receive";
            byte[] buffer = new byte[4];
            for (int got = 0; got < 4;)
            {
                int count = await socket.ReceiveAsync(buffer.AsMemory(got), limit.Token);
                if (count == 0) throw new EndOfStreamException("the end instead of the answer");
                got += count;
            }

            if (!buffer.AsSpan().SequenceEqual(_ping)) throw new InvalidDataException("another answer");
            Interlocked.Increment(ref _served);
        }
        catch (Exception e)
        {
            Failures.AddOrUpdate($"{step}: {(e as SocketException)?.SocketErrorCode.ToString() ?? e.Message}", 1,
                static (_, n) => n + 1);
        }
        finally
        {
            open.Release();
        }
    }
}
