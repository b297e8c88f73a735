namespace Whimbrel.Testing;

/// <summary>Thrown when the library violates its own contract. The code under test is never the cause.</summary>
public sealed class ContractViolationException : Exception
{
    /// <summary>Creates the exception.</summary>
    /// <param name="message">The violated rule and the place.</param>
    public ContractViolationException(string message)
        : base(message)
    {
    }
}
