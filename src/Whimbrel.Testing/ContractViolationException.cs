namespace Whimbrel.Testing;

/// <summary>The library broke a rule of its own contract. Never the fault of the code under test.</summary>
public sealed class ContractViolationException : Exception
{
    /// <summary>Makes the exception.</summary>
    /// <param name="message">Which rule, where.</param>
    public ContractViolationException(string message)
        : base(message)
    {
    }
}
