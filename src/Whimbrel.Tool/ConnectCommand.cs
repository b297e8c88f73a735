namespace Whimbrel.Tool;

/// <summary><c>whimbrel connect</c>: stdin goes out, what comes in is printed on stdout, why it ended on stderr.</summary>
internal static class ConnectCommand
{
    internal static async Task<int> RunAsync(string address, EngineKind kind)
    {
        await using NoticePrinter notices = new();
        using StopSignals stop = new();
        using CancellationTokenSource dialling = new();
        try
        {
            await using Engine engine = new(new EngineOptions { Kind = kind, Loops = 1, BlockedLoopMs = NoticePrinter.BlockedLoopMs, OnNotice = notices.Add });
            _ = CancelOnStopAsync();
            Client client = new(new ClientOptions { Address = address, Engine = engine }, static () => new ConsoleSession());
            ConsoleSession session = (ConsoleSession)await client.ConnectAsync(dialling.Token);
            await Console.Error.WriteLineAsync($"connected to {session.RemoteEndPoint}; Ctrl-C or the end of the input closes");
            new Thread(() => SendInput(session)) { IsBackground = true, Name = "stdin" }.Start();
            _ = CloseOnStopAsync(session);
            CloseReason reason = await session.Ended;
            await Console.Error.WriteLineAsync($"{reason}");
            return reason.IsGraceful ? ExitCode.Done : ExitCode.Failed;
        }
        catch (OperationCanceledException)
        {
            await Console.Error.WriteLineAsync("cancelled");
        }
        catch (Exception e) when (e is NetworkException or ArgumentException or PlatformNotSupportedException)
        {
            await Console.Error.WriteLineAsync($"whimbrel: {e.Message}");
        }

        return ExitCode.Failed;

        async Task CancelOnStopAsync()
        {
            await stop.Asked;
            await dialling.CancelAsync();
        }

        async Task CloseOnStopAsync(Session session)
        {
            await stop.Asked;
            session.Close();
        }
    }

    /// <summary>Its own thread, because reading a terminal blocks.</summary>
    private static void SendInput(ConsoleSession session)
    {
        using Stream input = Console.OpenStandardInput();
        byte[] chunk = new byte[16 * 1024];
        byte last = (byte)'\n';
        for (int count; (count = input.Read(chunk)) > 0; last = chunk[count - 1])
        {
            // Waits while the peer does not read, and so does whoever writes our input.
            if (session.SendAsync(chunk.AsMemory(0, count)).AsTask().GetAwaiter().GetResult() != SendResult.Queued) return;
        }

        if (last != (byte)'\n') session.Send("\n");

        // Not Close: what the peer still has to say is printed. It ends when the peer has finished too.
        session.FinishSending();
    }
}
