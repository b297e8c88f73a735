using CSharpServer;

namespace OldPrograms.CSharp;

/// server.pem with its encrypted key, dh4096.pem, and ca.pem for clients, in the current folder.
internal static class Contexts
{
    public static SslContext OfServer()
    {
        var context = new SslContext(SslMethod.TLSV12);
        context.SetPassword("qwerty");
        context.UseCertificateChainFile("server.pem");
        context.UsePrivateKeyFile("server.pem", SslFileFormat.PEM);
        context.UseTmpDHFile("dh4096.pem");
        return context;
    }

    public static SslContext OfClient()
    {
        var context = new SslContext(SslMethod.TLSV12);
        context.SetDefaultVerifyPaths();
        context.SetRootCerts();
        context.SetVerifyMode(SslVerifyMode.VerifyPeer | SslVerifyMode.VerifyFailIfNoPeerCert);
        context.LoadVerifyFile("ca.pem");
        return context;
    }
}
