using System.Net;

namespace Whimbrel.Tool;

/// <summary>
/// <c>whimbrel connect --udp</c>: sends each line of stdin as a datagram and prints received ones as lines. After the
/// end of the input it waits until no datagram has arrived for a second.
/// </summary>
internal static class ConnectDatagramsCommand
{
    private const long QuietMs = 1000;

    internal static Task<int> RunAsync(NetworkAddress address, DatagramSettings common) =>
        DatagramRun.GuardAsync(common, 1, async (engine, stop, tell) =>
        {
            using CancellationTokenSource looking = new();
            _ = CancelOnStopAsync();
            EndPoint peer = await DatagramText.LookUpAsync(address, looking.Token);
            LinePrinter lines = new();
            ConsoleDatagrams end = new(lines, tell);
            DatagramCounters counters;
            await using (lines)
            {
                await using DatagramSocket socket = new(new DatagramOptions { Engine = engine, RemoteEndPoint = peer },
                    () => end);
                await socket.StartAsync();
                tell($"datagrams to {new DatagramPeer(peer)}, one per line; Ctrl-C or the end of input ends");
                TaskCompletionSource inputEnded = new(TaskCreationOptions.RunContinuationsAsynchronously);
                new Thread(() => SendInput(socket, tell, inputEnded)) { IsBackground = true, Name = "stdin" }.Start();
                await DatagramRun.UntilStopAsync(socket, common, stop, WaitForAnswersAsync(end, inputEnded.Task),
                    lines.NobodyReads);
                counters = socket.ReadCounters();
            }

            tell($"{counters.DatagramsSent} datagrams out, {counters.DatagramsReceived} in");
            return end.WasRefused && counters.DatagramsReceived == 0 ? ExitCode.Failed : ExitCode.Done;

            async Task CancelOnStopAsync()
            {
                await stop;
                await looking.CancelAsync();
            }
        });

    /// <summary>
    /// Waits until no answer has arrived for a second after the end of the input, because the last answer cannot be
    /// recognized.
    /// </summary>
    private static async Task WaitForAnswersAsync(ConsoleDatagrams end, Task inputEnded)
    {
        await inputEnded;
        for (long before = -1; before != end.Received && !(end.WasRefused && end.Received == 0);
            await Task.Delay(TimeSpan.FromMilliseconds(QuietMs)))
            before = end.Received;
    }

    /// <summary>Reads stdin on a thread of its own, because reading a terminal blocks.</summary>
    private static void SendInput(DatagramSocket socket, Action<string> tell, TaskCompletionSource ended)
    {
        using StreamReader input = new(Console.OpenStandardInput());
        byte[] datagram = new byte[DatagramOptions.MaxDatagramBytes];
        while (input.ReadLine() is { } line)
        {
            if (!System.Text.Encoding.UTF8.TryGetBytes(line, datagram, out int count))
            {
                tell($"a line was not sent: it has more than {DatagramOptions.MaxDatagramBytes} bytes, the "
                    + $"largest datagram");
            }
            else if (socket.Send(datagram.AsSpan(0, count), default, Timeout.InfiniteTimeSpan) != SendResult.Queued)
            {
                return;
            }
        }

        ended.TrySetResult();
    }
}
