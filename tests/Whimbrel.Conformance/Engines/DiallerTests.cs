namespace Whimbrel.Conformance;

public sealed class UringTcpConnector() : ConnectorSuite(Transport.UringTcp);

public sealed class EpollTcpConnector() : ConnectorSuite(Transport.EpollTcp);

public sealed class EpollUnixConnector() : ConnectorSuite(Transport.EpollUnix);

public sealed class EpollPoolConnector() : ConnectorSuite(Transport.EpollPool);

public sealed class EpollTlsConnector() : ConnectorSuite(Transport.EpollTls);

#if PORTABLE
public sealed class PortableTcpConnector() : ConnectorSuite(Transport.PortableTcp);
#endif

#if MEMORY
public sealed class MemoryTcpConnector() : ConnectorSuite(Transport.MemoryTcp);

public sealed class MemoryPoolConnector() : ConnectorSuite(Transport.MemoryPool);
#endif
