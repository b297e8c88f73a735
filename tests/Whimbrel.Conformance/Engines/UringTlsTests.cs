namespace Whimbrel.Conformance;

// TLS on the io_uring engine, skipped where the system does not allow it: what touches its buffers and its sends.
public sealed class UringTlsReceiving() : ReceivingSuite(Transport.UringTls);

public sealed class UringTlsClosing() : ClosingSuite(Transport.UringTls);

public sealed class UringTlsSending() : SendingSuite(Transport.UringTls);

public sealed class UringTlsFeature() : TlsSuite(Transport.UringTcp);
