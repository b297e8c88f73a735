using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using Whimbrel.Http;

namespace Whimbrel.Tool;

/// <summary><c>whimbrel connect ws://</c> or <c>wss://</c>: sends each line of stdin as a text message and prints
/// received ones as lines. After the end of the input it waits until no message has arrived for a second, and
/// closes.</summary>
internal static class ConnectSocketCommand
{
    private const int QuietMs = 1000;

    internal static bool IsSocket(string address) => address.StartsWith("ws://", StringComparison.OrdinalIgnoreCase)
        || address.StartsWith("wss://", StringComparison.OrdinalIgnoreCase);

    internal static async Task<int> RunAsync(string address, EngineKind kind, TlsArguments? tls)
    {
        await using NoticePrinter notices = new();
        await using LinePrinter lines = new();
        Task stop = StopSignal.WaitAsync();
        using CancellationTokenSource connecting = new();
        try
        {
            await using Engine engine = new(new EngineOptions
            {
                Kind = kind,
                Loops = 1,
                BlockedLoopMs = NoticePrinter.BlockedLoopMs,
                OnDiagnosticEvent = notices.Add
            });
            _ = CancelOnStopAsync();
            ClientOptions options =
                new() { Address = CoreAddressOf(new Uri(address)), Engine = engine, Tls = tls?.ToClientOptions() };
            await using WebSocketClient client = new(address, options, () => new SocketLines(lines, notices.Tell));
            SocketLines session = (SocketLines)await client.ConnectAsync(connecting.Token);
            notices.Tell($"connected to {session.RemoteEndPoint}; Ctrl-C or the end of input closes");
            new Thread(() => SendInput(session)) { IsBackground = true, Name = "stdin" }.Start();
            _ = CloseOnStopAsync(session);
            CloseReason reason = await session.Ended;
            string text =
                session.CloseText.Length > 0 ? $", '{ChatText.Clean(Encoding.UTF8.GetBytes(session.CloseText))}'" : "";
            notices.Tell(string.Create(CultureInfo.InvariantCulture,
                $"closed with {(int)session.CloseStatus} ({NameOf(session.CloseStatus)}){text}; {reason}"));
            return session.CloseStatus is WebSocketStatus.Normal or WebSocketStatus.GoingAway or WebSocketStatus.None
                ? ExitCode.Done
                : ExitCode.Failed;
        }
        catch (OperationCanceledException)
        {
            notices.Tell("cancelled");
        }
        catch (Exception e) when (e is NetworkException or ArgumentException or PlatformNotSupportedException
            or IOException or UnauthorizedAccessException or CryptographicException)
        {
            notices.Tell($"whimbrel: {e.Message}");
        }

        return ExitCode.Failed;

        async Task CancelOnStopAsync()
        {
            await stop;
            await connecting.CancelAsync();
        }

        async Task CloseOnStopAsync(WebSocketSession session)
        {
            await Task.WhenAny(stop, lines.NobodyReads);
            session.Close();
        }
    }

    private static string CoreAddressOf(Uri address) =>
        $"{(address.Scheme == "wss" ? "tls" : "tcp")}://{address.Host}:{address.Port}";

    private static string NameOf(WebSocketStatus status) =>
        Enum.IsDefined(status) ? status.ToString() : "of the application";

    /// <summary>Reads stdin on a thread of its own, because reading a terminal blocks.</summary>
    private static void SendInput(SocketLines session)
    {
        using StreamReader input = new(Console.OpenStandardInput());
        while (input.ReadLine() is { } line)
        {
            // Blocks while the peer does not read, which blocks the program that writes to stdin.
            if (session.SendTextAsync(line).AsTask().GetAwaiter().GetResult() != SendResult.Queued) return;
        }

        // A close frame would end the answers as well. The last answer cannot be recognized, so a second of silence
        // ends the wait.
        for (long before = -1; before != session.Received && !session.Ended.IsCompleted;)
        {
            before = session.Received;
            session.Ended.Wait(QuietMs);
        }

        session.Close();
    }
}
