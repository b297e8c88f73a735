using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Conformance;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Tests;

// A broker that is an external program, on a port that it keeps across restarts.
internal abstract class ProgramBroker(string command) : TestBroker
{
    private RealProgram? _program;

    internal int Port { get; } = RealProgram.FreePort();

    // Directory of its files.
    protected abstract string[] Arguments(string directory);

    public override async ValueTask RestoreAsync() => _program = await RealProgram.ServeAsync(command, Port, Arguments);

    public override ValueTask LoseAsync()
    {
        _program?.Dispose();
        _program = null;
        return default;
    }

    public override async ValueTask StopAsync()
    {
        if (_program is { } program) await program.TerminateAsync();
        await LoseAsync();
    }

    public override ValueTask DisposeAsync() => LoseAsync();

    internal static (string Certificate, string Key) WriteCertificate(string directory)
    {
        string certificate = Path.Combine(directory, "server.pem"), key = Path.Combine(directory, "server.key");
        File.WriteAllText(certificate, TestCertificates.Server.ExportCertificatePem());
        using ECDsa secret = TestCertificates.Server.GetECDsaPrivateKey()!;
        File.WriteAllText(key, secret.ExportPkcs8PrivateKeyPem());
        return (certificate, key);
    }
}
