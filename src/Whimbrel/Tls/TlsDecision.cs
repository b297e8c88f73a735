namespace Whimbrel.Tls;

/// <summary>The answer to <see cref="TlsStep.NeedsVerdict"/>.</summary>
/// <param name="IsAccepted">The peer's certificate is good.</param>
/// <param name="Message">When it is not: why, one sentence.</param>
internal readonly record struct TlsDecision(bool IsAccepted, string? Message = null);
