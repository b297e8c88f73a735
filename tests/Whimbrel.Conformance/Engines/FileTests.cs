namespace Whimbrel.Conformance;

// Parts of files, on every engine, plain and over TLS, on the loop and on the pool.
public sealed class EpollTcpFiles() : FileSuite(Transport.EpollTcp);

public sealed class EpollUnixFiles() : FileSuite(Transport.EpollUnix);

public sealed class EpollPoolFiles() : FileSuite(Transport.EpollPool);

public sealed class EpollTlsFiles() : FileSuite(Transport.EpollTls);

public sealed class EpollOpenSslFiles() : FileSuite(Transport.EpollOpenSsl);

#if PORTABLE
public sealed class PortableTcpFiles() : FileSuite(Transport.PortableTcp);

public sealed class PortablePoolFiles() : FileSuite(Transport.PortablePool);

public sealed class PortableTlsFiles() : FileSuite(Transport.PortableTls);
#endif

#if MEMORY
public sealed class MemoryTcpFiles() : FileSuite(Transport.MemoryTcp);

public sealed class MemoryPoolFiles() : FileSuite(Transport.MemoryPool);

public sealed class MemoryTlsFiles() : FileSuite(Transport.MemoryTls);
#endif
