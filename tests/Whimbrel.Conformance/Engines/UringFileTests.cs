namespace Whimbrel.Conformance;

// The io_uring engine: the suites of FileTests.cs.
public sealed class UringTcpFiles() : FileSuite(Transport.UringTcp);

public sealed class UringUnixFiles() : FileSuite(Transport.UringUnix);

public sealed class UringPoolFiles() : FileSuite(Transport.UringPool);

public sealed class UringTlsFiles() : FileSuite(Transport.UringTls);
