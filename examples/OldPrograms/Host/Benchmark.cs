using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using NetCoreServer;

namespace OldPrograms.Host;

/// What the old performance clients have in common: their options, the wait for all connections, the figures at the
/// end.
internal sealed class Benchmark
{
    public readonly string Address;
    public readonly int Port;
    public readonly string Path;
    public readonly int Clients;
    public readonly int Messages;
    public readonly int Size;
    public readonly int Seconds;
    public readonly int Threads;

    public long TotalErrors;
    public long TotalBytes;
    public long TotalMessages;
    private readonly int _wait;
    private long _begin;
    private long _end;

    public Benchmark(string[] args, int port, int messages, int size, string address = "127.0.0.1", bool hasThreads = false, string path = null)
    {
        var options = new Options(args);
        if (path == null)
        {
            Address = options.Text("address", address);
            Port = options.Number("port", port);
        }
        else Path = options.Text("path", path);

        Clients = options.Number("clients", 100);
        Messages = options.Number("messages", messages);
        Size = options.Number("size", size);
        Seconds = options.Number("seconds", 10);
        _wait = options.Number("wait", 30);
        Console.WriteLine(path == null ? $"Server address: {Address}\nServer port: {Port}" : $"Server path: {Path}");
        // Only programs of CSharpServer have threads.
        Threads = hasThreads ? options.Number("threads", Environment.ProcessorCount) : 0;
        if (hasThreads) Console.WriteLine($"Working threads: {Threads}");
        Console.WriteLine($"Working clients: {Clients}");
        Console.WriteLine($"Working messages: {Messages}");
        Console.WriteLine($"Message size: {Size}");
        Console.WriteLine($"Seconds to benchmarking: {Seconds}");
        Console.WriteLine();
    }

    /// Counts measured bytes: the measured time ends with the last of them.
    public void Count(long bytes)
    {
        Interlocked.Add(ref TotalBytes, bytes);
        Volatile.Write(ref _end, Environment.TickCount64);
    }

    public void Run<T>(List<T> clients, Action<T> connect, Func<T, bool> isReady, Action<T> disconnect, Func<T, bool> isConnected)
    {
        _begin = Environment.TickCount64;
        Console.Write("Clients connecting...");
        foreach (var client in clients) connect(client);
        Console.WriteLine("Done!");
        if (!AreReady(clients, isReady)) Environment.Exit(1);
        Console.WriteLine("All clients connected!");
        Console.Write("Benchmarking...");
        Thread.Sleep(Math.Max(0, Seconds - 1) * 1000);
        // Every old client has this property, but they have no common base class.
        var received = typeof(T).GetProperty("BytesReceived").GetMethod.CreateDelegate<Func<T, long>>();
        long allBeforeLast = Interlocked.Read(ref TotalBytes);
        var beforeLast = clients.ConvertAll(c => received(c));
        Thread.Sleep(Math.Min(1, Seconds) * 1000);
        Console.WriteLine("Done!");
        bool stalled = Interlocked.Read(ref TotalBytes) == allBeforeLast;
        int silent = clients.Where((c, i) => received(c) == beforeLast[i]).Count();
        long fewest = clients.Min(received);
        Console.Write("Clients disconnecting...");
        foreach (var client in clients) disconnect(client);
        Console.WriteLine("Done!");
        foreach (var client in clients)
        {
            while (isConnected(client)) Thread.Yield();
        }

        Console.WriteLine("All clients disconnected!");
        Console.WriteLine();
        double elapsed = Math.Max(1, _end - _begin);
        if (TotalMessages == 0) TotalMessages = TotalBytes / Size;
        Console.WriteLine($"Errors: {TotalErrors}");
        Console.WriteLine();
        Console.WriteLine($"Total time: {Utilities.GenerateTimePeriod(elapsed)}");
        Console.WriteLine($"Total data: {Utilities.GenerateDataSize(TotalBytes)}");
        Console.WriteLine($"Total messages: {TotalMessages}");
        Console.WriteLine($"Data throughput: {Utilities.GenerateDataSize(TotalBytes * 1000.0 / elapsed)}/s");
        if (TotalMessages > 0)
        {
            Console.WriteLine($"Message latency: {Utilities.GenerateTimePeriod(elapsed / TotalMessages)}");
            Console.WriteLine($"Message throughput: {(long)(TotalMessages * 1000.0 / elapsed)} msg/s");
        }

        // The old programs did not print this, and a stalled client was hidden by the others.
        Console.WriteLine($"Fewest bytes of a client: {fewest}");
        if (stalled) Console.WriteLine("Stalled: no bytes came in the last second");
        else if (silent > 0) Console.WriteLine($"Silent: {silent} of {clients.Count} clients got nothing in the last second");
    }

    // The old programs waited forever for a server that was not running.
    private bool AreReady<T>(List<T> clients, Func<T, bool> isReady)
    {
        long limit = Environment.TickCount64 + _wait * 1000L;
        foreach (var client in clients)
        {
            while (!isReady(client))
            {
                if (Environment.TickCount64 > limit)
                {
                    Console.WriteLine($"Not connected within {_wait} seconds: {clients.Count(c => !isReady(c))} of {clients.Count} clients");
                    return false;
                }

                Thread.Yield();
            }
        }

        return true;
    }
}
