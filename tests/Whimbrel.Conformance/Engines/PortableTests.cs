#if PORTABLE
namespace Whimbrel.Conformance;

// The portable engine: every suite over TCP and over Unix sockets.
public sealed class PortableTcpLifecycle() : LifecycleSuite(Transport.PortableTcp);

public sealed class PortableUnixLifecycle() : LifecycleSuite(Transport.PortableUnix);

public sealed class PortableTcpReceiving() : ReceivingSuite(Transport.PortableTcp);

public sealed class PortableUnixReceiving() : ReceivingSuite(Transport.PortableUnix);

public sealed class PortableTcpPause() : PauseSuite(Transport.PortableTcp);

public sealed class PortableUnixPause() : PauseSuite(Transport.PortableUnix);

public sealed class PortableTcpClosing() : ClosingSuite(Transport.PortableTcp);

public sealed class PortableUnixClosing() : ClosingSuite(Transport.PortableUnix);

public sealed class PortableTcpSending() : SendingSuite(Transport.PortableTcp);

public sealed class PortableUnixSending() : SendingSuite(Transport.PortableUnix);

public sealed class PortableTcpErrors() : ErrorSuite(Transport.PortableTcp);

public sealed class PortableUnixErrors() : ErrorSuite(Transport.PortableUnix);

public sealed class PortableTcpConcurrency() : ConcurrencySuite(Transport.PortableTcp);

public sealed class PortableUnixConcurrency() : ConcurrencySuite(Transport.PortableUnix);

public sealed class PortableTcpServers() : ServerSuite(Transport.PortableTcp);

public sealed class PortableUnixServers() : ServerSuite(Transport.PortableUnix);

public sealed class PortableTcpLoops() : LoopSuite(Transport.PortableTcp);

public sealed class PortableUnixLoops() : LoopSuite(Transport.PortableUnix);

public sealed class PortableTcpAddresses() : TcpAddressSuite(Transport.PortableTcp);

public sealed class PortableUnixAddresses() : UnixAddressSuite(Transport.PortableUnix);
#endif
