#:project ../../src/Whimbrel/Whimbrel.csproj
// STARTTLS as in SMTP: the connection begins in the clear, and continues encrypted.
// Try it: whimbrel certs, dotnet run starttls.cs tcp://127.0.0.1:2525 certs, and
//         openssl s_client -starttls smtp -connect 127.0.0.1:2525 -CAfile certs/ca.pem
using System.Text;
using Whimbrel;

string address = args.ElementAtOrDefault(0) ?? "tcp://127.0.0.1:2525";
string folder = args.ElementAtOrDefault(1) ?? "certs";
TlsOptions tls = new()
{
    Certificate = TlsCertificate.FromPemFile($"{folder}/server.pem", $"{folder}/server.key"),
};
await using Server server = new(address, () => new MailSession(tls));
await server.StartAsync();
Console.WriteLine($"Listening at {server.EndPoint}. Ctrl-C stops.");
await StopSignal.WaitAsync();

sealed class MailSession(TlsOptions tls) : FramedSession(FrameFormat.Line(limitBytes: 512))
{
    protected override void OnConnected() => Send("220 mail.example ready\r\n");

    protected override void OnFrame(in Frame line)
    {
        string[] words = Encoding.ASCII.GetString(line.Message).Split(' ');
        switch (words[0].ToUpperInvariant())
        {
            case "EHLO" when Tls is null: Send("250-mail.example\r\n250 STARTTLS\r\n"); break;
            case "EHLO": Send("250 mail.example\r\n"); break;
            case "STARTTLS" when Tls is null: StartTls(); break;
            case "NOOP": Send("250 OK\r\n"); break;
            case "QUIT": Quit(); break;
            case "MAIL" when Tls is null: Send("530 Must issue a STARTTLS command first\r\n"); break;
            default: Send("502 Command not implemented\r\n"); break;
        }
    }

    // The answer leaves in the clear, and what is sent later waits for the handshake. Commands that a client sent
    // together with STARTTLS may come from an attacker on the path: with such bytes the upgrade fails.
    private void StartTls()
    {
        Send("220 Go ahead\r\n");
        UpgradeToTls(tls);
    }

    private void Quit()
    {
        Send("221 Bye\r\n");
        Close();
    }
}
