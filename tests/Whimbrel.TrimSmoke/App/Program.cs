await (args is ["web"] ? WebProgram.RunAsync() : EchoProgram.RunAsync());
