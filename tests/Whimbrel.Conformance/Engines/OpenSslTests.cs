namespace Whimbrel.Conformance;

// The guarantees of a connection, over the direct OpenSSL provider as well. The tests' peers use SslStream, so that
// both sides are independent. The storms of ConcurrencySuite run with the portable provider only: they exercise the
// connection.
public sealed class EpollOpenSslFeature() : TlsSuite(Transport.EpollWithOpenSsl);

public sealed class EpollPoolOpenSslFeature() : TlsSuite(Transport.EpollPoolWithOpenSsl);

public sealed class EpollOpenSslLifecycle() : LifecycleSuite(Transport.EpollOpenSsl);

public sealed class EpollOpenSslReceiving() : ReceivingSuite(Transport.EpollOpenSsl);

public sealed class EpollOpenSslPause() : PauseSuite(Transport.EpollOpenSsl);

public sealed class EpollOpenSslClosing() : ClosingSuite(Transport.EpollOpenSsl);

public sealed class EpollOpenSslSending() : SendingSuite(Transport.EpollOpenSsl);

public sealed class EpollOpenSslBackPressure() : BackPressureSuite(Transport.EpollOpenSsl);

public sealed class EpollOpenSslStream() : StreamSuite(Transport.EpollOpenSsl);

public sealed class EpollOpenSslHandOver() : HandOverSuite(Transport.EpollOpenSsl);

#if MEMORY
public sealed class MemoryOpenSslReceiving() : ReceivingSuite(Transport.MemoryOpenSsl);
#endif
