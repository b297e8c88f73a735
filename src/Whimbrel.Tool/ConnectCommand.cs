using System.Globalization;
using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tool;

/// <summary><c>whimbrel connect</c>: sends stdin, prints received data on stdout and the reason of the end on
/// stderr.</summary>
internal static class ConnectCommand
{
    internal static async Task<int> RunAsync(string address, EngineKind kind, TlsArguments? tls)
    {
        await using NoticePrinter notices = new();
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
            Client client = new(new ClientOptions { Address = address, Engine = engine, Tls = tls?.ToClientOptions() },
                static () => new ConsoleSession());
            ConsoleSession session = (ConsoleSession)await client.ConnectAsync(connecting.Token);
            await Console.Error.WriteLineAsync(
                $"connected to {session.RemoteEndPoint}; Ctrl-C or the end of input closes");
            if (session.Tls is { } agreed) await Console.Error.WriteLineAsync(TextOf(agreed));
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
        catch (Exception e) when (e is NetworkException or ArgumentException or PlatformNotSupportedException
            or IOException or UnauthorizedAccessException or CryptographicException)
        {
            await Console.Error.WriteLineAsync($"whimbrel: {e.Message}");
        }

        return ExitCode.Failed;

        async Task CancelOnStopAsync()
        {
            await stop;
            await connecting.CancelAsync();
        }

        async Task CloseOnStopAsync(Session session)
        {
            await stop;
            session.Close();
        }
    }

    /// <summary>Returns the result of the handshake as two lines: the connection, and the peer's identity.</summary>
    private static string TextOf(TlsInfo tls)
    {
        string version = tls.Protocol switch
        {
            SslProtocols.Tls13 => "TLS 1.3",
            SslProtocols.Tls12 => "TLS 1.2",
            _ => tls.Protocol.ToString()
        };
        string protocol = tls.ApplicationProtocol is { } chosen ? $", application protocol {chosen}" : "";
        string line = $"{version}, {tls.CipherSuite}{protocol}{(tls.IsResumed ? ", resumed" : "")}, by {tls.Provider}";
        if (tls.PeerCertificate is not { } peer) return line;
        string until = peer.NotAfter.ToUniversalTime().ToString("yyyy-MM-dd", CultureInfo.InvariantCulture);
        return $"{line}\ncertificate of {peer.GetNameInfo(X509NameType.SimpleName, forIssuer: false)}, signed "
            + $"by {peer.GetNameInfo(X509NameType.SimpleName, forIssuer: true)}, until {until}, SHA-256 "
            + $"{CertsCommand.FingerprintOf(peer)}, key {TlsCertificate.PinOf(peer)}";
    }

    /// <summary>Reads stdin on a thread of its own, because reading a terminal blocks.</summary>
    private static void SendInput(ConsoleSession session)
    {
        using Stream input = Console.OpenStandardInput();
        byte[] chunk = new byte[16 * 1024];
        byte last = (byte)'\n';
        for (int count; (count = input.Read(chunk)) > 0; last = chunk[count - 1])
        {
            // Blocks while the peer does not read, which blocks the program that writes to stdin.
            if (session.SendAsync(chunk.AsMemory(0, count)).AsTask().GetAwaiter().GetResult() != SendResult.Queued)
                return;
        }

        if (last != (byte)'\n') session.Send("\n");

        // Not Close, because data that the peer still sends is printed. The connection ends when the peer has finished
        // too.
        session.ShutdownSend();
    }
}
