using System.Security.Cryptography.X509Certificates;
using Whimbrel.Conformance;
using Whimbrel.Connections;
using Whimbrel.Engines;
using Whimbrel.Testing;
using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

// When handshakes look at the files of a certificate, in virtual time.
public sealed class CertificateLookTests : IDisposable
{
    private readonly string _folder = Directory.CreateTempSubdirectory("whimbrel").FullName;
    private readonly MemoryEngine _engine = new(1, faults: MemoryFaults.None);
    private readonly Host _host;

    public CertificateLookTests() => _host = new Host(_engine);

    private string Chain => Path.Combine(_folder, "chain.pem");

    private string Key => Path.Combine(_folder, "key.pem");

    public void Dispose()
    {
        _engine.Run(_engine.DisposeAsync());
        Directory.Delete(_folder, recursive: true);
    }

    private void Write(string name)
    {
        X509Certificate2 certificate = TestCertificates.Make(name, "chat.test");
        File.WriteAllText(Key, certificate.GetECDsaPrivateKey()!.ExportPkcs8PrivateKeyPem());
        File.WriteAllText(Chain, certificate.ExportCertificatePem());
    }

    private string Look(TlsCertificate certificate)
    {
        certificate.LookAtFiles(_engine, _host);
        return certificate.Current.Subject;
    }

    [Fact] // from both sides, each time
    public void Files_are_looked_at_once_in_two_seconds()
    {
        Write("n0");
        TlsCertificate certificate = TlsCertificate.FromPemFile(Chain, Key);
        _ = certificate.Take();
        _engine.RunFor(TimeSpan.FromSeconds(10));
        for (int i = 1; i <= 3; i++)
        {
            Assert.Equal($"CN=n{i - 1}", Look(certificate));
            Write($"n{i}");
            _engine.RunFor(TimeSpan.FromMilliseconds(1_999));
            Assert.Equal($"CN=n{i - 1}", Look(certificate));
            _engine.RunFor(TimeSpan.FromMilliseconds(1));
            Assert.Equal($"CN=n{i}", Look(certificate));
            _engine.RunFor(TimeSpan.FromSeconds(2));
        }

        Assert.Empty(_host.Notices);
    }

    [Fact] // another program has it open: nothing about the file differs at the next look
    public void Files_that_could_not_be_read_are_read_at_the_next_look()
    {
        Write("first");
        TlsCertificate certificate = TlsCertificate.FromPemFile(Chain, Key);
        _ = certificate.Take();
        Write("second");
        _engine.RunFor(TimeSpan.FromSeconds(10));
        using (new FileStream(Chain, FileMode.Open, FileAccess.ReadWrite, FileShare.None))
            Assert.Equal("CN=first", Look(certificate));
        Assert.Contains("stays in use", Assert.Single(_host.Notices).Message, StringComparison.Ordinal);
        _engine.RunFor(TimeSpan.FromSeconds(2));
        Assert.Equal("CN=second", Look(certificate));
    }

    private sealed class Host(Engine engine)
        : ConnectionHost(engine, new ServerOptions { Engine = engine }, isAccepting: true)
    {
        internal List<DiagnosticEvent> Notices { get; } = [];

        internal override object Owner => this;

        internal override void NoteSession(DiagnosticEvent notice) => Notices.Add(notice);

        internal override void SessionConnecting(Connection connection) => throw new NotSupportedException();

        internal override void SessionConnected(Session session) => throw new NotSupportedException();

        internal override void SessionEnding(Session session) => throw new NotSupportedException();

        internal override void SessionEnded(Session session, CloseReason reason, bool wasConnected) =>
            throw new NotSupportedException();

        internal override void SessionReplaced(Session old, Session next) => throw new NotSupportedException();
    }
}
